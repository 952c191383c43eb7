"""The watcher: one poll of registry and backend for all streams on the triggerer, every few seconds.

It fires an asset event when a reconcile pass would have something to do, so that a dead driver is seen within one
poll. While there is nothing to do, it records the states itself and no task runs (`supervision.quiet_pass`). Without
the watcher, the schedule of `streams_reconcile` suffices alone, with longer intervals. And it is the dead man's switch
of that Dag: when no pass succeeds any more, it is the one that says so. When passes begin and do not finish, as on a
starved machine, it launches what is dead itself (`supervision.relaunch`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lakeward.airflow import lineage
from lakeward.airflow.polling import Poll, PollingTrigger
from lakeward.platform.boundary import worded

if TYPE_CHECKING:
    from lakeward.supervision.alarm import Alarm
    from lakeward.supervision.heartbeat_monitor import HeartbeatMonitor
    from lakeward.supervision.quiet_pass import QuietPass
    from lakeward.supervision.relaunch import Relaunch

T = TypeVar("T")


class StreamsTrigger(PollingTrigger):
    """Fires when something is to be done about any stream."""

    WHAT = "streams"

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[list[str]]:
        """Poll for ever, and send lineage events meanwhile."""
        sending = asyncio.create_task(lineage.send_forever(), name="lineage")
        try:
            async for reasons in super().open_shared_stream(kwargs):
                yield reasons
        finally:
            sending.cancel()

    @classmethod
    async def begin(cls, arguments: dict[str, Any]) -> Poll:
        """A poll of registry and backend for all streams."""
        alarm, monitor, relaunch, quiet = await _observers()

        async def poll() -> list[str]:
            reasons = await asyncio.to_thread(_polled, "streams", alarm.poll)
            await asyncio.to_thread(_polled, "missing passes", monitor.poll)
            await asyncio.to_thread(_polled, "relaunch of drivers", relaunch.poll)
            return reasons or await asyncio.to_thread(_polled, "quiet pass", quiet.poll)

        return poll


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
