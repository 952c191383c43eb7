"""Progress, not liveness: a batch that gets nowhere for `limits.stall` hangs, however alive its process is.

A slow batch is no hung one: while Spark finishes tasks of it, it gets somewhere. Nor is one that waits for a broker or
a catalog: it says so itself and goes on when they are back.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.driver.running import Running
from lakeward.platform.errors import LakewardError
from lakeward.spec.model.stream import silence_s

DOUBT_S = 30.0
"""A batch over its limit in which Spark finishes no task for this long hangs."""


class Hung(LakewardError):
    """Raised (and passed on as a failure) when a query was interrupted because it got nowhere."""


@dataclass
class _Quiet:
    """Since when nothing has changed. `tasks` is learnt when the limit is over, at `asked`."""

    mark: tuple[float, int | None, int | None]
    since: float
    tasks: object = None
    asked: float = 0.0


class Watchdog:
    """Remembers when each query last got somewhere."""

    def __init__(self) -> None:
        self._quiet: dict[str, _Quiet] = {}

    def look(self, running: Running, waiting: int | None, now: float) -> float | None:
        """For how long a query has been getting nowhere although there is something to do; None if it is well.

        Args:
            running: the query.
            waiting: records that wait at its sources, None when not known.
            now: monotonic.
        """
        gate, spec = running.gate, running.wanted.spec
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
        tasks = running.tasks()  # asked only now: it costs a few calls into the JVM
        if quiet.tasks is None or tasks != quiet.tasks:
            quiet.tasks, quiet.asked = tasks, now
            return None
        return now - quiet.since if now - quiet.asked > min(limit, DOUBT_S) else None

    @staticmethod
    def _over(quiet: _Quiet, now: float, limit: float) -> float | None:
        return now - quiet.since if now - quiet.since > limit else None

    def forget(self, stream: str) -> None:
        """Its query is over."""
        self._quiet.pop(stream, None)


def hung(running: Running, quiet_s: float, dump: str) -> Hung:
    """The failure of a query that was interrupted. (The words `hung batch` name the cause.)"""
    batch = running.gate.inside
    what = f"batch {batch} of stream {running.stream}" if batch is not None else f"stream {running.stream}"
    limit = running.wanted.spec.limits.stall
    return Hung(
        f"{what[0].upper()}{what[1:]} got nowhere for {quiet_s:.0f} s (hung batch): it was interrupted",
        why=f"limits: stall is {limit}; what its threads did stands in {dump}",
        next=f"lakeward streams logs {running.stream}",
        code="LW-2405",
    )
