"""Into a folder of files: each batch published by one rename, with its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.folder import store
from lakeward.connectors.folder.writer import FolderWriter
from lakeward.engine.checkpoint.layout import Checkpoint
from lakeward.engine.checkpoint.preflight import Verdict
from lakeward.engine.sinks.base import SinkState
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_IN_CSV = ("array", "map", "struct", "binary", "variant")


@dataclass
class FilesLanding:
    """A files sink. It is no table: no catalog knows it, it has one stream, and its columns may change at any batch."""

    writer: FolderWriter
    exact = True
    output_mode = "append"

    def look(self, topic_ids: Mapping[str, str]) -> SinkState:
        """The newest batch's position; what would block the next batch is said now, not when it comes."""
        state = self.writer.load(self.writer.session)
        self.writer.expect(state.raw)
        at = state.position
        if at is None:
            return SinkState()
        found = self.writer.decide(state, RunningBatch("", -1, at.end, at.end, topic_ids))
        return SinkState(at, found if isinstance(found, BlockReason) else None)

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """A folder names its one stream itself."""
        return None

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Make the folder, and see whether the columns fit files of this format."""
        writer = self.writer
        writer.stateful = stateful
        kinds = {each.name: each.dataType.typeName() for each in columns.fields}
        parts = writer.partition_by
        wrong = [f"no column {name} to partition by" for name in parts if name not in kinds]
        if not set(kinds) - set(parts):
            wrong.append("no column is left beside those to partition by")
        if "seq" in (name.lower() for name in kinds):
            wrong.append("a column seq: that is the name of each batch's folder")
        if writer.format == "csv":
            nested = [name for name, kind in kinds.items() if kind in _NOT_IN_CSV and name not in parts]
            wrong += [f"CSV has no place for {name}, which is {kinds[name].upper()}" for name in nested]
        if wrong:
            raise SpecError(
                f"The columns of stream {writer.stream} do not fit its files", why="; ".join(wrong),
                next=f"correct the transform or the sink in conf/streams/{writer.stream}.yaml, then: lakeward deploy",
             code="LW-2221")  # fmt: skip
        store.prepare(writer.path, writer.stream)

    def running(self, batch_id: int) -> RunningBatch:
        """From the running query, which has the stream's name."""
        return self.writer.running(batch_id)

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> BatchResult:
        """Write the batch beside the others and rename it in; nothing, when it is there already."""
        return self.writer.land(
            rows, batch_id, counted=counted, before_publish=before_publish, complete_through=complete_through
        )
