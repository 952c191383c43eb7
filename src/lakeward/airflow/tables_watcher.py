"""The watcher of tables: starts an observation when tables changed, so that none runs while nothing does."""

from __future__ import annotations

import asyncio
from typing import Any

from lakeward.airflow.polling import POLL_S, Poll, PollingTrigger


class TablesTrigger(PollingTrigger):
    """Fires when tables need another observation (`lakeward.tables.changes`).

    Args:
        every_s: the shortest time between two observations, in seconds.
    """

    WHAT = "tables"

    def __init__(self, every_s: float, poll_s: float = POLL_S) -> None:
        super().__init__(poll_s, every_s=every_s)

    @classmethod
    async def begin(cls, arguments: dict[str, Any]) -> Poll:
        """A poll of the registry, and of the catalog when an observation may follow."""
        # Imported here: every parse of a Dag file imports this module, and only the triggerer needs the rest.
        from lakeward.airflow.connections import runtime_async
        from lakeward.platform.runtime import Project
        from lakeward.supervision.reconcile import registry_of
        from lakeward.tables.changes import TableChanges

        runtime = await runtime_async()
        changes = TableChanges(registry_of(runtime), runtime, Project.locate, float(arguments["every_s"]))

        async def poll() -> list[str]:
            return await asyncio.to_thread(changes.poll)

        return poll
