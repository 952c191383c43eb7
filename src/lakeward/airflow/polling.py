"""A trigger that polls on the triggerer for ever and fires when there is a reason: the frame of Lakeward's watchers."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from datetime import UTC, datetime
from typing import Any, ClassVar

import structlog
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from lakeward.platform.errors import LakewardError

log = structlog.get_logger(__name__)

POLL_S = 5.0
AFTER_ERROR_S = 15.0
Poll = Callable[[], Awaitable[list[str]]]
"""Returns the reasons to fire; empty if there is none."""


class PollingTrigger(BaseEventTrigger):
    """Fires when a poll has reasons. All instances of a class with the same arguments share one poll."""

    WHAT: ClassVar[str]
    """What is polled, for the log."""

    def __init__(self, poll_s: float = POLL_S, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        self.arguments = {"poll_s": poll_s, **arguments}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as Airflow stores them."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    def shared_stream_key(self) -> Hashable:
        """The same for all with the same arguments: one poll a triggerer."""
        return (self.WHAT, *sorted(self.arguments.items()))

    @classmethod
    @abstractmethod
    async def begin(cls, arguments: dict[str, Any]) -> Poll:
        """Make what is polled; called again after a failure."""

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[list[str]]:
        """Poll for ever. What goes wrong is logged and tried again: a watcher that ends watches nothing."""
        pause = float(kwargs.get("poll_s", POLL_S))
        poll: Poll | None = None
        while True:
            try:
                if poll is None:
                    poll = await cls.begin(kwargs)
                    log.info("watcher started", of=cls.WHAT, poll_s=pause)
                reasons = await poll()
            except (LakewardError, OSError) as error:
                log.warning("poll failed", of=cls.WHAT, error=str(error), retry_in_s=AFTER_ERROR_S)
                poll = None
                await asyncio.sleep(AFTER_ERROR_S)
                continue
            except Exception:  # named boundary: whatever one poll meets, the watcher goes on watching
                log.exception("poll failed, the next one begins from nothing", of=cls.WHAT, retry_in_s=AFTER_ERROR_S)
                poll = None
                await asyncio.sleep(AFTER_ERROR_S)
                continue
            if reasons:
                log.info("run requested", of=cls.WHAT, reasons=reasons)
                yield reasons
            await asyncio.sleep(pause)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[list[str]]) -> AsyncIterator[TriggerEvent]:
        """Every finding of the poll is one event."""
        async for reasons in shared_stream:
            yield _event(reasons)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same for a triggerer without shared streams."""
        async for reasons in type(self).open_shared_stream(self.arguments):
            yield _event(reasons)


def _event(reasons: list[str]) -> TriggerEvent:
    # The moment makes each event its own; two triggerers that see the same thing cost one more run that does nothing.
    return TriggerEvent(
        {  # type: ignore[no-untyped-call]  # Airflow's is not annotated
            "reasons": reasons[:20],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
