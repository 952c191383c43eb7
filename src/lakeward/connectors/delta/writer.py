"""`DeltaWriter`: `TableWriter` for Delta. Rows and position are one commit, the version after the one that was read."""

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
from lakeward.connectors.delta.folder import Folder, at, parquet
from lakeward.platform.errors import LakewardError
from lakeward.platform.text import word
from lakeward.spec.sql.statements import call_name
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Staged:
    """Data files in the table's folder that no commit names yet.

    Attributes:
        attempt: `<stream>/<seq>/<nonce>`.
        rows: the number of records that they apply.
        actions: the file actions of the commit, Java objects.
        paths: the written files.
        metadata: the table's columns and properties at the time of the write, as JSON.
        version: the table's version at the time of the write.
        session: the batch's own session.
    """

    attempt: str
    rows: int
    actions: Sequence[Any]
    paths: Sequence[Folder]
    metadata: str
    version: int
    session: SparkSession


@dataclass
class DeltaWriter(TableWriter[TableState, Staged]):
    """Lands one stream in one Delta table.

    Args:
        folder: the table's folder.
        change: how a batch changes the table.
    """

    folder: Folder = Path()
    change: Change = field(default_factory=Append)

    @property
    def mode(self) -> str:
        return self.change.mode

    @property
    def history(self) -> str:
        history = f"DESCRIBE HISTORY {call_name(self.table, 'spark_catalog')}"
        return f"by: lakeward sql {word(history)}"

    def load(self, session: SparkSession) -> TableState:
        """The newest version.

        If the position is not the expected one, Delta's cache of the log is dropped and the table read again: another
        process may have overwritten a commit of this writer.
        """
        state = self._state(jvm.begin(session, self.folder, self.table))
        if self._began and state.raw != self._expected:
            jvm.invalidate_cache(session, self.folder)
            state = self._state(jvm.begin(session, self.folder, self.table))
        return state

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> Staged:
        """Write the data files. The log does not name them; if they are never committed, VACUUM deletes them.

        Raises:
            RetryCommit: a file was deleted while the batch was written.
        """
        session = rows.sparkSession
        txn = jvm.begin(session, self.folder, self.table)
        files = self.change.write(rows, txn)
        paths = [at(self.folder, path) for path in jvm.paths_of(txn, files.added)]
        try:
            count = (
                files.rows
                if files.rows is not None
                else sum(pq.read_metadata(parquet(path)).num_rows for path in paths)
            )
        except FileNotFoundError as error:
            raise RetryCommit(f"staged file {error.filename or error} no longer exists") from error
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
        """Commit the staged files, again after each unrelated commit that came first: the staged files stay valid."""
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            txn = jvm.begin(staged.session, self.folder, self.table)
            self._check_unchanged(txn, state, staged)
            version = int(txn.snapshot().version()) + 1
            moved = build(version, version)
            failpoints.hit("before-publish")
            name = position.key(self.stream)
            try:
                landed = jvm.commit(staged.session, txn, staged.actions, moved, batch, name)
            except Exception as error:
                if jvm.is_concurrent_change(error):
                    continue  # nothing was committed: read and check the table again
                raise
            failpoints.hit("after-publish")
            if landed != version:
                raise LakewardError(
                    f"Delta committed version {landed} of {self.table} instead of version {version}",
                    why="the position names its own version; this is a fault of Lakeward, or Delta's version differs",
                    code="LW-3049",
                )
            committed = log.commit(self.folder, version)
            if committed is not None and committed.domains.get(name) != moved.to_json():
                jvm.invalidate_cache(staged.session, self.folder)
                raise RetryCommit(f"version {version} was overwritten by another process")
            return moved
        raise self.contention(batch.batch, f"other writers committed first in each of {ATTEMPTS} attempts")

    def _check_unchanged(self, txn: Any, state: TableState, staged: Staged) -> None:
        """Raise if the table changed since it was checked in a way that affects this batch."""
        now = self._state(txn)
        if now.raw != state.raw:
            raise RetryCommit("the position moved")
        # A RESTORE does not set the position back, so a rollback since step 1 is found only by this check.
        reason = check_table(now)
        if reason is not None:
            raise reason.error()
        if str(txn.metadata().json()) != staged.metadata:
            raise RetryCommit("the table's columns or properties changed")
        if self.change.depends and now.version != staged.version:
            raise RetryCommit("the table changed, and the written rows depend on its rows")
        missing = [path.name for path in staged.paths if not path.exists()]
        if missing:
            raise RetryCommit(f"{len(missing)} staged files no longer exist (VACUUM)")

    def _state(self, txn: Any) -> TableState:
        return jvm.state_of(txn.snapshot(), self.folder, self.stream, self.table)
