"""release: move `verified` past rows that a check holds, with a person's approval."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from lakeward.operations.context import Context
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.request import Outcome, Plan, Request
from lakeward.quality.publishing import release as publishing
from lakeward.quality.ranges import metadata
from lakeward.quality.runs import formats

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class Release(Operation[Plan]):
    """Moves `verified` of a table to the snapshot that the newest check run holds.

    Args:
        spark: opens a session on the connect server.
    """

    name = "release"
    kind = "table"
    lock = Lock.NONE
    needs_comment = True
    needs_approval = True

    def __init__(
        self, context: Context, request: Request, spark: Callable[[], AbstractContextManager[SparkSession]]
    ) -> None:
        super().__init__(context, request)
        self.spark = spark

    def plan(self) -> Plan:
        with self.context.connect() as connection:
            held = publishing.held_run(connection, self.subject)
        noun = "snapshot" if held.run["to_commit"] is None else "version"
        failed = "; ".join(held.failed)
        text = f"publish {noun} {held.run['to_snapshot']} of {self.subject} although these fail: {failed}"
        return Plan(text, key=str(held.run["run"]))

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        runtime = self.context.runtime
        with self.spark() as spark:
            of = formats.of(self.subject, metadata.catalog(runtime), runtime.lake)
            done = publishing.release(
                self.context.connect, of, lambda: spark, author=self.context.author, comment=self.request.comment
            )
        return self.done(done["detail"], {"verified_snapshot": done["verified_snapshot"], "run": done["run"]})
