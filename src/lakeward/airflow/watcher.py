"""The watcher: one poll of registry and backend for all streams on the triggerer, every few seconds.

It fires an asset event when a reconcile pass would have something to do, so that a dead driver is seen within one
poll. While there is nothing to do, it records the states itself and no task runs (`supervision.quiet_pass`). Without
the watcher, the schedule of `streams_reconcile` suffices alone, with longer intervals. And it is the dead man's switch
of that Dag: when no pass succeeds any more, it is the one that says so. When passes begin and do not finish, as on a
starved machine, it launches what is dead itself (`supervision.relaunch`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from lakeward.airflow import lineage
from lakeward.platform.boundary import worded
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.supervision.alarm import Alarm
    from lakeward.supervision.heartbeat_monitor import HeartbeatMonitor
    from lakeward.supervision.quiet_pass import QuietPass
    from lakeward.supervision.relaunch import Relaunch

log = structlog.get_logger(__name__)

T = TypeVar("T")
POLL_S = 5.0
_AFTER_ERROR_S = 15.0


class StreamsTrigger(BaseEventTrigger):
    """Fires when something is to be done about any stream. All instances share one poll."""

    def __init__(self, poll_s: float = POLL_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as Airflow stores them."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"poll_s": self.poll_s}

    def shared_stream_key(self) -> Hashable:
        """The same for all: one poll a triggerer."""
        return ("lakeward-streams",)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[list[str]]:
        """Poll for ever. What goes wrong is logged and tried again: a watcher that ends watches nothing."""
        sending = asyncio.create_task(lineage.send_forever(), name="lineage")
        try:
            async for reasons in cls._polls(float(kwargs.get("poll_s", POLL_S))):
                yield reasons
        finally:
            sending.cancel()

    @classmethod
    async def _polls(cls, pause: float) -> AsyncIterator[list[str]]:
        observers: tuple[Alarm, HeartbeatMonitor, Relaunch, QuietPass] | None = None
        while True:
            try:
                if observers is None:
                    observers = await _observers()
                    log.info("watcher started", poll_s=pause)
                alarm, monitor, relaunch, quiet = observers
                reasons = await asyncio.to_thread(_polled, "streams", alarm.poll)
                await asyncio.to_thread(_polled, "missing passes", monitor.poll)
                await asyncio.to_thread(_polled, "relaunch of drivers", relaunch.poll)
                reasons = reasons or await asyncio.to_thread(_polled, "quiet pass", quiet.poll)
            except (LakewardError, OSError) as error:
                log.warning("streams not observable", error=str(error), retry_in_s=_AFTER_ERROR_S)
                observers = None
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            except Exception:  # named boundary: whatever one poll meets, the watcher goes on watching
                log.exception("poll failed, the next one begins anew", retry_in_s=_AFTER_ERROR_S)
                observers = None
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            if reasons:
                log.info("reconcile pass requested", reasons=reasons)
                yield reasons
            await asyncio.sleep(pause)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[list[str]]) -> AsyncIterator[TriggerEvent]:
        """Every finding of the poll is one event."""
        async for reasons in shared_stream:
            yield _event(reasons)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same for a triggerer without shared streams."""
        async for reasons in type(self).open_shared_stream({"poll_s": self.poll_s}):
            yield _event(reasons)


async def _observers() -> tuple[Alarm, HeartbeatMonitor, Relaunch, QuietPass]:
    # Imported here: every parse of a Dag file imports this module, and only the triggerer needs the rest.
    from lakeward.airflow.connections import runtime_async
    from lakeward.airflow.notify import channel_async
    from lakeward.airflow.project import settings
    from lakeward.platform.runtime import Project
    from lakeward.supervision.alarm import Alarm
    from lakeward.supervision.heartbeat_monitor import HeartbeatMonitor
    from lakeward.supervision.quiet_pass import QuietPass
    from lakeward.supervision.reconcile import backend_of, registry_of
    from lakeward.supervision.relaunch import Relaunch

    runtime = await runtime_async()
    connect, backend = registry_of(runtime), backend_of(runtime)
    return (
        Alarm(connect, runtime, backend),
        HeartbeatMonitor(connect, await channel_async()),
        Relaunch(connect, runtime, backend, settings),
        QuietPass(connect, runtime, backend, settings, lambda: Project.locate().suites),
    )


def _polled(item: str, poll: Callable[[], T]) -> T:
    return worded(item, poll, through=(OSError,), next="lakeward streams list")


def _event(reasons: list[str]) -> TriggerEvent:
    # The moment makes each event its own; two triggerers that see the same thing cost one more pass that does nothing.
    return TriggerEvent(
        {  # type: ignore[no-untyped-call]  # Airflow's is not annotated
            "reasons": reasons[:20],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
