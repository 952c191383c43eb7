"""Watchdog for hung batches: a batch without progress for `limits.stall` hangs, even if its process is alive.

A slow batch does not hang while Spark finishes tasks of it. A batch that waits for a broker or a catalog does not hang
either: it reports that itself and continues when they are back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakeward.driver.running import Running
from lakeward.platform.errors import LakewardError
from lakeward.spec.model.stream import silence_s

DOUBT_S = 30.0
"""A batch over its limit hangs if Spark finishes no task of it for this long."""


class Hung(LakewardError):
    """The failure of a query that was interrupted because it made no progress."""


@dataclass
class _Quiet:
    """Time of the last progress. `tasks` is read only after the limit is over, at `tasks_read_at`."""

    mark: tuple[float, int | None, int | None]
    since: float
    tasks: object = None
    tasks_read_at: float = 0.0


class Watchdog:
    """Keeps the time of each query's last progress.

    Args:
        patience: how long `DOUBT_S` is now. On a starved machine a task may take minutes; its batch, interrupted and
            begun again, would cost the same once more.
    """

    def __init__(self, patience: Callable[[float], float] = lambda seconds: seconds) -> None:
        self._quiet: dict[str, _Quiet] = {}
        self._patience = patience

    def seconds_without_progress(self, running: Running, waiting: int | None, now: float) -> float | None:
        """Seconds without progress although there is work; None if the query is healthy.

        Args:
            running: the query.
            waiting: unread records at its sources; None if unknown.
            now: monotonic.
        """
        gate, spec = running.gate, running.assignment.spec
        mark = (running.started, gate.inside, gate.newest)
        quiet = self._quiet.get(running.stream)
        nothing_to_do = gate.inside is None and not waiting
        if quiet is None or quiet.mark != mark or nothing_to_do or gate.waits or gate.closed:
            self._quiet[running.stream] = _Quiet(mark, now)
            return None
        limit = float(spec.limits.stall.seconds)
        if gate.inside is None:
            return self._over(quiet, now, silence_s(spec.limits, spec.trigger.interval))
        if now - quiet.since <= limit:
            return None
        tasks = running.tasks()  # only now: it costs a few calls into the JVM
        if quiet.tasks is None or tasks != quiet.tasks:
            quiet.tasks, quiet.tasks_read_at = tasks, now
            return None
        return now - quiet.since if now - quiet.tasks_read_at > min(limit, self._patience(DOUBT_S)) else None

    @staticmethod
    def _over(quiet: _Quiet, now: float, limit: float) -> float | None:
        return now - quiet.since if now - quiet.since > limit else None

    def forget(self, stream: str) -> None:
        """Drop the state of a query that has ended."""
        self._quiet.pop(stream, None)


def hung(running: Running, quiet_s: float, dump: str) -> Hung:
    """The failure of a query that was interrupted. (The words `hung batch` name the cause.)"""
    batch = running.gate.inside
    what = f"batch {batch} of stream {running.stream}" if batch is not None else f"stream {running.stream}"
    limit = running.assignment.spec.limits.stall
    return Hung(
        f"{what[0].upper()}{what[1:]} made no progress for {quiet_s:.0f} s (hung batch) and was interrupted",
        why=f"limits: stall is {limit}; the thread dump is {dump}",
        next=f"lakeward streams logs {running.stream}",
        code="LW-2405",
    )
