"""`DeltaWriter`: `TableWriter` for Delta. Rows and position are one commit, the very next one after what was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, Build, RetryCommit, pause
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.delta import jvm, log
from lakeward.connectors.delta.change import Append, Change
from lakeward.connectors.delta.check import TableState, check_table
from lakeward.platform.errors import LakewardError
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Staged:
    """Files in the table's folder that no commit names yet.

    Attributes:
        attempt: `<stream>/<seq>/<nonce>`.
        rows: records they apply.
        actions: what the commit says of files, Java objects.
        paths: the files that were written.
        metadata: the table's columns and properties they were written by.
        version: what the table was at.
        session: the batch's own.
    """

    attempt: str
    rows: int
    actions: Sequence[Any]
    paths: Sequence[Path]
    metadata: str
    version: int
    session: SparkSession


@dataclass
class DeltaWriter(TableWriter[TableState, Staged]):
    """Lands one stream in one Delta table.

    Args:
        folder: the table's.
        change: what a batch does to it.
    """

    folder: Path = Path()
    change: Change = field(default_factory=Append)

    @property
    def mode(self) -> str:
        return self.change.mode

    @property
    def history(self) -> str:
        return f"by DESCRIBE HISTORY spark_catalog.{self.table} (lakeward sql)"

    def load(self, session: SparkSession) -> TableState:
        """The newest version. Where the position is not what was seen last, Delta forgets what it remembers of the log:
        another process may have written over a commit of ours."""
        state = self._state(jvm.begin(session, self.folder, self.table))
        if self._began and state.raw != self._expected:
            jvm.invalidate_cache(session, self.folder)
            state = self._state(jvm.begin(session, self.folder, self.table))
        return state

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> Staged:
        """Write the files. Nothing in the log names them; without the commit they are VACUUM's.

        Raises:
            RetryCommit: they were taken away while they were written.
        """
        session = rows.sparkSession
        txn = jvm.begin(session, self.folder, self.table)
        files = self.change.write(rows, txn)
        paths = jvm.paths_of(txn, files.added)
        try:
            count = files.rows if files.rows is not None else sum(pq.read_metadata(path).num_rows for path in paths)
        except FileNotFoundError as gone:
            raise RetryCommit(f"a staged file is gone: {gone.filename}") from gone
        return Staged(
            attempt=attempt,
            rows=count,
            actions=[*files.added, *files.removed],
            paths=paths,
            metadata=str(txn.metadata().json()),
            version=int(txn.snapshot().version()),
            session=session,
        )

    def publish(self, state: TableState, staged: Staged, batch: RunningBatch, build: Build) -> Position:
        """Again and again while only other commits came first: the staged files stay good."""
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            txn = jvm.begin(staged.session, self.folder, self.table)
            self._still(txn, state, staged)
            version = int(txn.snapshot().version()) + 1
            moved = build(version, version)
            failpoints.hit("before-publish")
            name = position.key(self.stream)
            try:
                landed = jvm.commit(staged.session, txn, staged.actions, moved, batch, name)
            except Exception as error:
                if jvm.is_concurrent_change(error):
                    continue  # nothing was written: read and check again
                raise
            failpoints.hit("after-publish")
            if landed != version:
                raise LakewardError(
                    f"Delta committed version {landed} of {self.table} where version {version} was asked for",
                    why="the position names the version it is in; this is an error of ours, or of another Delta",
                    code="LW-3049",
                )
            found = log.commit(self.folder, version)
            if found is not None and found.domains.get(name) != moved.to_json():
                jvm.invalidate_cache(staged.session, self.folder)
                raise RetryCommit(f"version {version} was overwritten by another process")
            return moved
        raise self.contention(batch.batch, "other commits came first, every time")

    def _still(self, txn: Any, state: TableState, staged: Staged) -> None:
        """Raise unless the table is what was checked, as far as this batch goes by it."""
        now = self._state(txn)
        if now.raw != state.raw:
            raise RetryCommit("the position moved")
        # The position does not go back with a RESTORE: between step 1 and here only a new look can tell.
        halt = check_table(now)
        if halt is not None:
            raise halt.error()
        if str(txn.metadata().json()) != staged.metadata:
            raise RetryCommit("the table's columns or properties changed")
        if self.change.depends and now.version != staged.version:
            raise RetryCommit("the table changed, and what was written follows from what was in it")
        gone = [path.name for path in staged.paths if not path.exists()]
        if gone:
            raise RetryCommit(f"{len(gone)} staged files are gone (VACUUM)")

    def _state(self, txn: Any) -> TableState:
        return jvm.state_of(txn.snapshot(), self.folder, self.stream, self.table)
