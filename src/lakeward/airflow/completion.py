"""Completion trigger: waits on the triggerer until a stream completes, with one small query every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import structlog
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

POLL_S = 5.0
_FIRST_POLL_S = 8.0
"""The scheduler fails a task that resumes before it has recorded the deferral."""
_AFTER_ERROR_S = 15.0


class CompletionTrigger(BaseTrigger):
    """Fires when a stream has landed all available records, or cannot.

    Args:
        stream: the stream of the run.
        since: when the run began, database time as RFC 3339.
    """

    def __init__(self, stream: str, since: str, poll_s: float = POLL_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        self.stream, self.since, self.poll_s = stream, since, poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as Airflow stores them."""
        arguments = {"stream": self.stream, "since": self.since, "poll_s": self.poll_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the run is over. While the registry is down the state is unknown, and polling continues."""
        from lakeward.operations import scheduled

        connect: Connect | None = None
        since = datetime.fromisoformat(self.since)
        await asyncio.sleep(_FIRST_POLL_S)
        while True:
            try:
                connect = connect or await _registry()
                over = await asyncio.to_thread(scheduled.run_result, connect, self.stream, since)
            except (LakewardError, OSError) as error:
                log.warning(
                    "stream state not available", stream=self.stream, error=str(error), retry_in_s=_AFTER_ERROR_S
                )
                connect = None
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            if over is not None:
                yield TriggerEvent({"well": over.well, "text": over.text})  # type: ignore[no-untyped-call]  # Airflow's
                return
            await asyncio.sleep(self.poll_s)


async def _registry() -> Connect:
    # Imported here: every parse of a Dag file imports this module, and only the triggerer needs the rest.
    from lakeward.airflow.connections import runtime_async
    from lakeward.supervision.reconcile import registry_of

    return registry_of(await runtime_async())
