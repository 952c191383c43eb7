"""Probe of the Spark masters of a project, for `doctor` and `deploy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lakeward.connectors.spark import master as spark_master
from lakeward.platform.errors import DependencyDown

if TYPE_CHECKING:
    from lakeward.spec.model.settings import Settings
    from lakeward.spec.model.types import SparkMaster


def probe_masters(
    settings: Settings, drivers: Iterable[str] | None = None
) -> Iterator[tuple[str, str, DependencyDown | None]]:
    """Master, the drivers that need it as text, and the error if it does not answer.

    Args:
        drivers: names of drivers; None: all declared ones.
    """
    needed: dict[SparkMaster, list[str]] = {}
    for name in settings.drivers if drivers is None else sorted(set(drivers)):
        if (master := settings.driver(name).master) is not None:
            needed.setdefault(master, []).append(str(name))
    for master, names in needed.items():
        who = f"driver{'s' if len(names) > 1 else ''} {', '.join(names)}"
        try:
            spark_master.reach(master)
        except DependencyDown as error:
            yield master, who, error
        else:
            yield master, who, None
