"""Table writer of a file sink: a batch is written to a staging folder and published by a rename."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import Build, RetryCommit
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason, Decision
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.folder import store
from lakeward.connectors.row_json import TIMES
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS: dict[str, dict[str, str]] = {
    # By default Spark removes blanks around a text, and escapes a quote by a backslash, which most readers misread.
    "csv": TIMES
    | {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    "json": TIMES | {"ignoreNullFields": "false"},
}


@dataclass(frozen=True)
class FolderState:
    """State of the folder: the position of the newest batch, as canonical JSON and parsed."""

    raw: str | None
    position: Position | None


@dataclass(frozen=True)
class Staged:
    """A staged folder, which readers skip.

    Attributes:
        attempt: `<stream>/<seq>/<nonce>`.
        rows: number of rows.
        folder: its path.
    """

    attempt: str
    rows: int
    folder: Path


@dataclass
class FolderWriter(TableWriter[FolderState, Staged]):
    """Lands one stream in one folder; `table` is the name of the folder in messages.

    Args:
        path: the folder.
        format: Spark's name of the file format.
        partition_by: columns whose values become subfolders of each batch.
    """

    path: Path = field(kw_only=True)
    format: str = field(kw_only=True)
    partition_by: Sequence[str] = ()
    _staged: list[Path] = field(default_factory=list, init=False, repr=False)

    @property
    def mode(self) -> str:
        return "append"

    @property
    def history(self) -> str:
        return f"in the newest {store.MANIFEST} below {self.path}"

    def load(self, session: SparkSession) -> FolderState:
        """The position of the newest batch.

        Raises:
            Blocked: it cannot be read, or it is of another stream.
        """
        at = store.newest(self.path, self.stream)
        return FolderState(None if at is None else at.to_json(), at)

    def check(self, state: FolderState) -> BlockReason | None:
        return None

    def decide(self, state: FolderState, batch: RunningBatch) -> Decision:
        """The decision of `TableWriter`, with a next step for folders: operations move positions of tables only."""
        decision = super().decide(state, batch)
        if not isinstance(decision, BlockReason):
            return decision
        step = "restore the checkpoint from a backup, or give the stream a new id and a new folder"
        return replace(decision, next=f"{step} (conf/streams/{self.stream}.yaml), then: lakeward deploy")

    def stage(self, rows: DataFrame, state: FolderState, attempt: str) -> Staged:
        """Write the files into a staging folder."""
        _, seq, nonce = attempt.rsplit("/", 2)
        folder = self.path / store.STAGING / f"{seq}-{nonce}"
        self._staged.append(folder)
        folder.mkdir(parents=True)
        return Staged(attempt, self.write(rows, folder), folder)

    def write(self, rows: DataFrame, folder: Path) -> int:
        """Write the rows as files; returns their number."""
        persisted = rows.persist()
        try:
            (count,) = tally(persisted)
            if count:
                writer = persisted.write.format(self.format).options(**_OPTIONS.get(self.format, {})).mode("append")
                partitioned = writer.partitionBy(*self.partition_by) if self.partition_by else writer
                partitioned.save(f"file://{folder}")
        finally:
            persisted.unpersist()
        return count

    def publish(self, state: FolderState, staged: Staged, batch: RunningBatch, build: Build) -> Position:
        """Rename the staged folder to the folder of its seq, with the position in it.

        Raises:
            RetryCommit: the position moved, or the staged folder was removed.
        """
        if self.load(self.session).raw != state.raw:
            raise RetryCommit("the position moved")
        moved = build(None, 0)
        failpoints.hit("before-publish")
        try:
            store.publish(staged.folder, self.path, self.stream, moved)
        except store.Taken as taken:
            raise RetryCommit(str(taken)) from None
        except FileNotFoundError:
            if staged.folder.exists():
                raise
            raise RetryCommit(f"the staged folder {staged.folder.name} was removed") from None
        failpoints.hit("after-publish")
        return moved

    def release(self) -> None:
        """Remove staged folders that were not published."""
        while self._staged:
            store.discard(self._staged.pop())
