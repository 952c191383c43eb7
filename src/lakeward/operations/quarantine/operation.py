"""quarantine operation: move unproven rows that fail a check from their table into the stream's quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.operations.context import Context
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.quarantine.remove import suited
from lakeward.operations.quarantine.run import QuarantineBy, failing_rows, move_failing_rows
from lakeward.operations.quarantine.streams import landing
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.quality.verdicts.waivers import choose, ids
from lakeward.tables.guard import readers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.spec.model.suite import Suite


@dataclass(frozen=True)
class QuarantinePlan(Plan):
    """Plan of a quarantine operation.

    Attributes:
        streams: the streams that landed the rows.
        readers: streams that read the table incrementally.
    """

    streams: tuple[Assignment, ...] = field(kw_only=True, repr=False)
    readers: tuple[str, ...] = field(default=(), kw_only=True)


class Quarantine(Operation[QuarantinePlan]):
    """Moves the rows of a table that fail a check, beside the running streams. Each row moves once, also after kills.

    A check with `on_fail: quarantine` needs no person's approval: its suite has it.

    Args:
        suite: of the table.
        check: the check's id, a prefix of the id, or its name.
        stream: only this stream's rows, where several land in the table.
        spark: opens a session with the lake's catalog for the streams.

    Raises:
        SpecError: the suite has no such check.
    """

    name = "quarantine"
    kind = "table"
    lock = Lock.NONE
    needs_comment = True

    def __init__(
        self,
        context: Context,
        request: Request,
        suite: Suite,
        check: str,
        spark: Callable[[Sequence[Assignment]], AbstractContextManager[SparkSession]],
        *,
        stream: str | None = None,
    ) -> None:
        super().__init__(context, request)
        self.check, self.check_name = choose(suite, check)
        self.expectation = dict(zip(ids(suite), suite.expectations, strict=True))[self.check]
        self.needs_approval = self.expectation.on_fail != "quarantine"
        self.stream = stream
        self.spark = spark
        self._session: SparkSession | None = None

    def plan(self) -> QuarantinePlan:
        """A dry run also reads the table, to report the rows that would move."""
        with self.context.connect() as connection:
            streams, _ = landing(connection, self.subject, self.stream)
            growing = sorted({reader.stream for reader in readers.registered(connection).get(self.subject, ())})
        for assignment in streams:
            suited(assignment.spec, self.check, growing)
        text = f"move the unproven rows of {self.subject} that fail {self.check_name} to quarantine"
        plan = QuarantinePlan(text, key=self.check, streams=tuple(streams), readers=tuple(growing))
        if not self.request.dry_run:
            return plan
        with self.resources(plan):
            data = self._moved(plan, dry_run=True)
        return QuarantinePlan(text, data=data, key=self.check, streams=plan.streams)

    @contextmanager
    def resources(self, plan: QuarantinePlan) -> Iterator[None]:
        with self.spark(plan.streams) as self._session:
            yield

    def apply(self, plan: QuarantinePlan, held: HeldLocks) -> Outcome:
        data = self._moved(plan, dry_run=False)
        moved = sum(entry["moved"] for entry in data["streams"])
        if not moved:
            return self.unchanged(f"no row of {self.subject} fails {self.check_name}", data)
        return self.done(f"{moved:,} rows of {self.subject} that fail {self.check_name} moved to quarantine", data)

    def _moved(self, plan: QuarantinePlan, *, dry_run: bool) -> dict[str, Any]:
        if self._session is None:
            raise RuntimeError("a quarantine needs its resources open")
        context, comment = self.context, self.request.comment
        failing = failing_rows(context.connect, context.runtime, self.subject, self.expectation)
        by = QuarantineBy(context.author, context.author, comment, {})
        done = [
            asdict(
                move_failing_rows(
                    self._session, assignment, context.runtime, failing, context.connect, by, readers=plan.readers,
                    dry_run=dry_run,
                )
            )
            for assignment in plan.streams
        ]  # fmt: skip
        return {"check": self.check, "name": self.check_name, "dry_run": dry_run, "comment": comment, "streams": done}
