"""Upkeep of the registry: what is older than its keep time goes, a few times a day."""

from __future__ import annotations

from sqlalchemy import func, select

from lakeward.control.reconcile import registry_of
from lakeward.registry import events
from lakeward.registry.purge import purge
from lakeward.runtime import Runtime

EVERY_S = 6 * 3600.0


def purge_if_due(runtime: Runtime) -> dict[str, int]:
    """Purge unless that was done lately; returns the rows removed by table."""
    with registry_of(runtime)() as connection:
        last = events.newest_of_kind(connection, "stack", "purged").get("registry")
        if last is not None:
            age = (connection.execute(select(func.now())).scalar_one() - last["at"]).total_seconds()
            if age < EVERY_S:
                return {}
        removed = purge(connection)
        text = f"Removed {sum(removed.values()):,} rows past their keep time"
        events.record(connection, "stack", "registry", "purged", text, **removed)
    return removed
