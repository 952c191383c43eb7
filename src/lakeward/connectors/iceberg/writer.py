"""`IcebergWriter`: `TableWriter` for Iceberg. A staged snapshot (WAP) is cherry-picked together with the position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, Build, RetryCommit, pause
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.iceberg import jvm, missing_table, publish, stage
from lakeward.connectors.iceberg.change import Append, Change
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.stage import Staged
from lakeward.platform.errors import Blocked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class InTable(stage.Staged):
    """A staged snapshot, and the table it was found in."""

    loaded: Any


@dataclass
class IcebergWriter(TableWriter[TableState, InTable]):
    """Lands one stream in one Iceberg table.

    Args:
        change: what a batch does to the table.
    """

    change: Change = field(default_factory=Append)

    @property
    def mode(self) -> str:
        return self.change.mode

    @property
    def history(self) -> str:
        return f"in lake.{self.table}.snapshots (lakeward sql)"

    def load(self, session: SparkSession) -> TableState:
        """The table's newest metadata, from the catalog.

        Raises:
            DependencyDown: the catalog does not answer.
            Blocked: the table was dropped (`table-missing`) or renamed (`table-renamed`); it is never made anew here.
        """
        return jvm.state_of(jvm.metadata_of(self._table(session)), self.stream, self.table)

    def _table(self, session: SparkSession) -> Any:
        try:
            return jvm.load(session, self.table)
        except Blocked:
            raise missing_table.halt(session, self.stream, self.table).error() from None

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> InTable:
        """Write a snapshot that no branch refers to, and find it again.

        Raises:
            Redo: a conflict, or it is not there any more.
            Blocked: it went straight to main (`unstaged`).
        """
        applied: int | None = None
        try:
            applied = stage.write(rows, self.table, attempt, self.change)
        except Exception as error:
            trouble = jvm.trouble(error)
            # What it read was compacted, or expired, before it was done.
            stale = trouble is jvm.Trouble.REFUSED and self.change.depends
            if stale or trouble in (jvm.Trouble.CONFLICT, jvm.Trouble.COMMIT_FAILED):
                raise RetryCommit(f"staging: {jvm.message(error)}") from error
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(self.table, error) from None
            if trouble is not jvm.Trouble.UNKNOWN:
                if jvm.says_gone(error):
                    self._table(rows.sparkSession)  # if it was ours that went, this says so
                raise
            # The answer was lost: the snapshot is there or it is not, and the next lines find out.
        table = self._table(rows.sparkSession)
        found = stage.find(table, attempt)
        if found is None:
            raise RetryCommit("the staged snapshot is not in the table (expired, or its commit was lost)")
        if isinstance(found, stage.WentToMain):
            raise Blocked(
                f"Snapshot {found.snapshot} of {self.table} holds a batch of {self.stream} that no position counts",
                why="write.wap.enabled was switched off while the batch was written: it went straight to main",
                next=f"lakeward sql --write \"CALL lake.system.rollback_to_snapshot('{self.table}', {found.parent})\""
                "   takes the batch out; it then lands again",
                reason="unstaged",
                code="LW-3105",
            )
        if applied is not None:
            found = replace(found, rows=applied)
        return InTable(found.snapshot, found.parent, found.attempt, found.rows, table)

    def take(self, transaction: Any, staged: Staged) -> Any:
        """Make the staged snapshot main's head within a transaction; gives the snapshot that becomes it."""
        return publish.take(transaction, staged, head_must_be_parent=self.change.depends)

    def publish(self, state: TableState, staged: InTable, batch: RunningBatch, build: Build) -> Position:
        """Again and again while only the table's metadata changed under it."""
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            try:
                return publish.publish(staged.loaded, state, staged, build, self.take).position
            except (publish.PositionMoved, publish.StagedGone, publish.HeadMoved) as moved:
                raise RetryCommit(f"publishing: {type(moved).__name__}") from moved
            except Exception as error:
                trouble = jvm.trouble(error)
                if trouble is jvm.Trouble.COMMIT_FAILED:
                    continue  # nothing was written: rebuild on the new metadata and check again
                if trouble is jvm.Trouble.OTHER:
                    if jvm.says_gone(error):
                        raise RetryCommit("publishing: the table is gone") from None
                    raise
                raise RetryCommit(f"publishing: {jvm.message(error)}") from error
        raise self.contention(batch.batch, "the table changed between reading and committing, every time")
