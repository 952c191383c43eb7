"""replay operation: land quarantined records that are valid in the current generation of their stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.operations.context import Context
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.quarantine.streams import landing
from lakeward.operations.replay.replay import replay
from lakeward.operations.request import Outcome, Plan, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeward.engine.assignment import Assignment

_RECORDED = ("generation", "landed", "filtered", "present", "seq")


@dataclass(frozen=True)
class ReplayPlan(Plan):
    """Plan of a replay.

    Attributes:
        streams: the streams whose quarantine is replayed.
        waiting: stream -> its pending generation; a replay uses the running one.
    """

    streams: tuple[Assignment, ...] = field(kw_only=True, repr=False)
    waiting: dict[str, int] = field(default_factory=dict, kw_only=True)


class Replay(Operation[ReplayPlan]):
    """Replays the quarantine of one table beside the running streams. Each row lands exactly once, also after kills.

    Args:
        reason: only rows with this reason.
        stream: only rows of this stream, if several land in the table.
        spark: opens a session with the lake's catalog for the streams.
    """

    name = "replay"
    kind = "table"
    lock = Lock.NONE
    needs_comment = True

    def __init__(
        self,
        context: Context,
        request: Request,
        spark: Callable[[Sequence[Assignment]], AbstractContextManager[SparkSession]],
        *,
        reason: str | None = None,
        stream: str | None = None,
    ) -> None:
        super().__init__(context, request)
        self.reason = reason
        self.stream = stream
        self.spark = spark
        self._session: SparkSession | None = None

    def plan(self) -> ReplayPlan:
        """A dry run also reads the quarantine, to report what would land."""
        with self.context.connect() as connection:
            chosen, waiting = landing(connection, self.subject, self.stream)
        text = f"land the quarantined records of {self.subject} that are valid now"
        plan = ReplayPlan(text, streams=tuple(chosen), waiting=waiting)
        if not self.request.dry_run:
            return plan
        with self.resources(plan):
            done = [self._replayed(assignment, plan, dry_run=True) for assignment in plan.streams]
        return ReplayPlan(text, data=self._data(done), streams=plan.streams)

    @contextmanager
    def resources(self, plan: ReplayPlan) -> Iterator[None]:
        with self.spark(plan.streams) as self._session:
            yield

    def apply(self, plan: ReplayPlan, held: HeldLocks) -> Outcome:
        done = []
        for assignment in plan.streams:
            replayed = self._replayed(assignment, plan, dry_run=False)
            done.append(replayed)
            if replayed["seq"] is not None:
                recorded = {"table": self.subject, **{name: replayed[name] for name in _RECORDED}}
                with self.context.connect() as connection:
                    self.record_change(connection, recorded, of=("stream", assignment.stream))
        rows, records = (sum(report[name] for report in done) for name in ("landed", "found"))
        if not records:
            return self.unchanged(f"no quarantined record of {self.subject} waits for a replay", self._data(done))
        return self.done(f"{rows:,} of {records:,} quarantined records landed in {self.subject}", self._data(done))

    def _replayed(self, assignment: Assignment, plan: ReplayPlan, *, dry_run: bool) -> dict[str, Any]:
        if self._session is None:
            raise RuntimeError("a replay needs its resources open")
        report = replay(self._session, assignment, self.context.runtime, reason=self.reason, dry_run=dry_run)
        return {**asdict(report), "pending_generation": plan.waiting.get(assignment.stream)}

    def _data(self, done: list[dict[str, Any]]) -> dict[str, Any]:
        return {"dry_run": self.request.dry_run, "comment": self.request.comment, "streams": done}
