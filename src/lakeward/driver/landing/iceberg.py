"""Into a table of the lake, by the commit protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.exact.batch import Counted, RunningBatch
from lakeward.connectors.exact.follow import Halt
from lakeward.connectors.exact.position import Position, key
from lakeward.connectors.iceberg import java, table
from lakeward.connectors.iceberg.check import check_table, decide
from lakeward.connectors.iceberg.writer import ExactWriter
from lakeward.driver import neighbours, schema
from lakeward.driver.landing.base import Outcome, Standing
from lakeward.driver.layout import Checkpoint
from lakeward.driver.preflight import Verdict
from lakeward.runtime import CATALOG
from lakeward.spec.sinks import IcebergSink
from lakeward.spec.sql import quote_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger(__name__)


@dataclass
class IcebergLanding:
    """Lands by `writer`, in the session that starts the query."""

    writer: ExactWriter
    sink: IcebergSink
    exact = True
    _metadata: Any = None

    @property
    def output_mode(self) -> str:
        """Of a query that keeps state, every changed row is what an upsert takes; else rows come once in any mode."""
        if self.sink.mode == "upsert":
            return "update" if self.writer.stateful else "append"
        return self.sink.mode

    def look(self, topic_ids: Mapping[str, str]) -> Standing:
        """The position in the table's metadata; what would block the next batch is said now, not when it comes."""
        self._metadata = self._load()
        if self._metadata is None:
            self.writer.expect(None)
            return Standing()
        state = java.state_of(self._metadata, self.writer.stream, self.writer.table)
        self.writer.expect(state.raw)
        at = state.position
        if at is None:
            return Standing(None, check_table(state))
        found = decide(state, RunningBatch("", -1, at.end, at.end, topic_ids))
        return Standing(at, found if isinstance(found, Halt) else self._other_mode(at))

    def _other_mode(self, at: Position) -> Halt | None:
        """Rows that were appended have no key, and a checkpoint says nothing of how its rows were taken."""
        stream, name = self.writer.stream, self.writer.table
        if at.mode == self.sink.mode:
            return None
        return Halt(
            "mode-changed",
            f"Stream {stream} is to land in {name} by another mode than before",
            f"up to seq {at.seq} it landed by {at.mode}, now the sink says {self.sink.mode}: "
            "the rows that are there would not be what this mode makes of them",
            f"say mode: {at.mode} again in conf/streams/{stream}.yaml, or name a new id and a new table; "
            "then: lakeward deploy",
        )

    def beside(
        self,
        checkpoint: str,
        kept: Checkpoint,
        declared: Callable[[], Mapping[str, str] | None],
        topics: Mapping[str, str],
    ) -> Verdict | None:
        """A checkpoint below the table's folder, or a stream that landed the same topics under another id."""
        if self._metadata is None:
            return None
        stream, name = self.writer.stream, self.writer.table
        found = neighbours.nested(stream, checkpoint, name, str(self._metadata.location()))
        if found is not None or not kept.empty or self._metadata.properties().get(key(stream)) is not None:
            return found
        others = declared()
        landed = java.others_of(self._metadata, stream, name)
        return None if others is None else neighbours.renamed(stream, kept, name, landed, others, topics)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(each) for each in self.sink.partition_by]
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, name, columns, fields, {**table.how_rows_change(self.sink), **self.sink.properties}):
            _log.info("table created", stream=stream, table=name, partition_by=fields)
            return
        there = own.table(quote_table(self.sink.table, CATALOG)).schema
        given = {field.name: field.dataType.simpleString() for field in columns.fields}
        has = {field.name: field.dataType.simpleString() for field in there.fields}
        schema.check(stream, name, given, has, lambda column: self._casts(given[column], has[column]))

    def folder(self) -> str | None:
        """The table's location."""
        metadata = self._metadata or self._load()
        return None if metadata is None else str(metadata.location())

    def running(self, batch_id: int) -> RunningBatch:
        """From the running query."""
        return self.writer.running(batch_id)

    def land(
        self,
        rows: DataFrame,
        batch_id: int,
        counted: Counted,
        before_publish: Callable[[], None] | None,
        complete_through: str | None,
    ) -> Outcome:
        """Stage and publish the batch, unless the table has it."""
        done = self.writer.land(
            rows, batch_id, counted=counted, before_publish=before_publish, complete_through=complete_through
        )
        batch = RunningBatch(
            done.position.query_id if done.position else "", batch_id, dict(done.start), dict(done.end)
        )
        return Outcome(
            batch=batch,
            landed=done.counts.landed,
            filtered=done.counts.filtered if counted.consumed is not None else None,
            seq=done.seq,
            snapshot=done.snapshot,
            already=done.already,
            stage_ms=done.stage_ms,
            publish_ms=done.publish_ms,
        )

    def _load(self) -> Any:
        """The table's metadata, None without a table."""
        own, name = self.writer.session, self.writer.table
        try:
            # Loaded by its name first: a catalog that cannot be loaded counts as none for Spark, which then takes
            # `lake` for a namespace and complains of that.
            own._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
            if not own.catalog.tableExists(quote_table(name, CATALOG)):
                return None
        except Exception as error:
            if java.trouble(error) in (java.Trouble.UNREACHABLE, java.Trouble.UNKNOWN):
                raise java.catalog_down(name, error) from error
            raise
        return java.metadata_of(java.load(own, name))

    def _casts(self, given: str, has: str) -> bool:
        """Whether Spark stores one type in the other without a possible loss."""
        jvm: Any = self.writer.session._jvm
        parse = jvm.org.apache.spark.sql.types.DataType.fromDDL
        return bool(jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast(parse(given), parse(has)))
