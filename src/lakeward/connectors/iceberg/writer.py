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
from lakeward.connectors.iceberg.check import TableState, check_table, unplaced
from lakeward.connectors.iceberg.qualified import prefix, procedure, spoken
from lakeward.connectors.iceberg.stage import Staged
from lakeward.platform.errors import Blocked, DependencyDown
from lakeward.platform.text import word
from lakeward.spec.sql.statements import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class InTable(stage.Staged):
    """A staged snapshot, and the loaded table that has it."""

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
        return f"by: lakeward sql {word(f'FROM {spoken(self.session, self.table)}.snapshots')}"

    def load(self, session: SparkSession) -> TableState:
        """The table's newest metadata, from the catalog.

        Raises:
            DependencyDown: the catalog does not answer.
            Blocked: the table was dropped (`table-missing`) or renamed (`table-renamed`); it is never recreated here.
        """
        loaded = self._table(session)
        metadata = jvm.metadata_of(loaded)
        no_place = jvm.no_place(loaded, metadata)
        if no_place is not None:
            raise unplaced(self.stream, self.table, prefix(session, self.table), *no_place).error()
        return jvm.state_of(metadata, self.stream, self.table)

    def _table(self, session: SparkSession) -> Any:
        try:
            return jvm.load(session, self.table)
        except Blocked:
            raise missing_table.block_reason(session, self.stream, self.table).error() from None

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state, prefix(self.session, self.table))

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> InTable:
        """Write a snapshot that is on no branch, and find it by its id.

        Raises:
            RetryCommit: a conflict, or the snapshot is missing.
            Blocked: the write went to main (`unstaged`).
        """
        applied: int | None = None
        down: DependencyDown | None = None
        try:
            applied = stage.write(rows, self.table, attempt, self.change)
        except Exception as error:
            trouble = jvm.trouble(error)
            # The rows it read were compacted or expired during the write.
            stale = trouble is jvm.Trouble.REFUSED and self.change.depends
            if stale or trouble in (jvm.Trouble.CONFLICT, jvm.Trouble.COMMIT_FAILED):
                # Iceberg has deleted the files of this attempt: its snapshot may not be used, even if it is there.
                raise RetryCommit(f"staging: {jvm.message(error)}") from error
            if trouble is jvm.Trouble.UNREACHABLE:
                down = jvm.catalog_down(self.table, error)
                if jvm.files_deleted(error):
                    raise down from None
            elif trouble is not jvm.Trouble.UNKNOWN:
                if jvm.is_missing(error):
                    self._table(rows.sparkSession)  # if this table is the missing one, this raises the block
                raise
            # The answer was lost: the next lines find out whether the snapshot exists. Iceberg's own retry may have put
            # it on main.
        table = self._table(rows.sparkSession)
        staged = stage.find(table, attempt)
        if staged is None:
            lost = RetryCommit("the staged snapshot is not in the table (expired, or its commit was lost)")
            raise (down or lost) from None
        if isinstance(staged, stage.WentToMain):
            roll_back = procedure("rollback_to_snapshot", self.table, prefix(self.session, self.table))
            raise Blocked(
                f"Snapshot {staged.snapshot} of {self.table} has a batch of {self.stream} that no position counts",
                why="write.wap.enabled was switched off during the write, so the batch went to main unstaged",
                next="lakeward sql --write "
                + word(f"{roll_back}({argument(self.table)}, {staged.parent})")
                + "   removes the batch; it then lands again",
                reason="unstaged",
                code="LW-3105",
            )
        if applied is not None:
            staged = replace(staged, rows=applied)
        return InTable(staged.snapshot, staged.parent, staged.attempt, staged.rows, table)

    def take(self, transaction: Any, staged: Staged) -> Any:
        """Make the staged snapshot main's head within a transaction; returns the new head."""
        return publish.take(transaction, staged, head_must_be_parent=self.change.depends)

    def publish(self, state: TableState, staged: InTable, batch: RunningBatch, build: Build) -> Position:
        """Publish, with retries while only other commits changed the table's metadata."""
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            try:
                catalog = prefix(self.session, self.table)
                return publish.publish(staged.loaded, state, staged, build, self.take, catalog=catalog).position
            except (publish.PositionMoved, publish.StagedGone, publish.HeadMoved) as moved:
                raise RetryCommit(f"publishing: {type(moved).__name__}") from moved
            except Exception as error:
                trouble = jvm.trouble(error)
                if trouble is jvm.Trouble.COMMIT_FAILED:
                    continue  # nothing was written: rebuild on the new metadata and check again
                if trouble is jvm.Trouble.OTHER:
                    if jvm.is_missing(error):
                        raise RetryCommit("publishing: the table is missing") from None
                    raise
                raise RetryCommit(f"publishing: {jvm.message(error)}") from error
        raise self.contention(batch.batch, "the table changed between reading and committing, every time")
