"""Probe of the Spark masters of a project, for `doctor` and `deploy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lakeward.connectors.cluster.resolve import resolved
from lakeward.connectors.spark import master as spark_master
from lakeward.platform.errors import LakewardError, SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from lakeward.spec.model.settings import Settings
    from lakeward.spec.model.types import SparkMaster


def probe_masters(
    settings: Settings, connections: Path | None, drivers: Iterable[str] | None = None
) -> Iterator[tuple[str, str, LakewardError | None]]:
    """Master, the drivers that need it as text, and the error if it does not answer, or is not known.

    Args:
        connections: folder with the connections, as in `Runtime`.
        drivers: names of drivers; None: all declared ones.
    """
    needed: dict[SparkMaster, list[str]] = {}
    for name in settings.drivers if drivers is None else sorted(set(drivers)):
        if settings.driver(name).backend != "standalone":
            continue
        try:
            driver = resolved(str(name), settings, connections)
        except SpecError as error:
            yield f"connection {settings.driver(name).connection}", f"driver {name}", error
            continue
        if driver.master is not None:
            needed.setdefault(driver.master, []).append(str(name))
    for master, names in needed.items():
        who = f"driver{'s' if len(names) > 1 else ''} {', '.join(names)}"
        try:
            spark_master.reach(master)
        except LakewardError as error:
            yield master, who, error
        else:
            yield master, who, None
