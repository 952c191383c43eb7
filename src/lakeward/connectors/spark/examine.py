"""Connections of drivers on standalone clusters, read without asking a master: for `config validate --deep`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.driver_place import Answer, of_error
from lakeward.platform.errors import SpecError
from lakeward.spec.model.settings import Settings


def examine(settings: Settings, connections: Path | None) -> Iterator[Answer]:
    """One answer for each driver on a standalone cluster that names a connection."""
    for name, driver in settings.drivers.items():
        if driver.backend != "standalone" or driver.connection is None:
            continue
        where = f"connection {driver.connection}, driver {name}"
        try:
            found = resolved(str(name), settings, connections)
        except SpecError as error:
            yield of_error(name, where, error)
            continue
        yield Answer(name, where, f"master {found.master}, {found.deploy_mode} mode")
