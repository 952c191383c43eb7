"""The Iceberg sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg import evolve, jvm, missing_table, table
from lakeward.connectors.iceberg.change import Append, Change, Replace, Upsert
from lakeward.connectors.iceberg.qualified import catalog_of, in_lake, prefix, spoken
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.connectors.schema_evolution import Comparison
from lakeward.engine import schema
from lakeward.engine.sinks.base import SinkContext
from lakeward.engine.sinks.evolution import MovedPosition
from lakeward.engine.sinks.exact import ExactSink, ObservedSinkTable
from lakeward.engine.sinks.lake_schema import LakeSchema, TableColumns
from lakeward.platform.errors import SpecError, expect
from lakeward.platform.text import word
from lakeward.spec.model.sinks import IcebergSink

_log = structlog.get_logger(__name__)


@dataclass
class IcebergStreamSink(ExactSink[IcebergWriter]):
    """An Iceberg table of the lake."""

    sink: IcebergSink = field(kw_only=True)
    tried = True
    additive: bool = field(kw_only=True)

    @classmethod
    def of(cls, context: SinkContext) -> IcebergStreamSink:
        """Make the sink of a spec.

        Raises:
            SpecError: it is not supported.
        """
        sink = expect(context.spec.sink.iceberg, "`sink.iceberg`")
        if sink.commit != "exact":
            raise SpecError(
                f"Stream {context.stream} cannot be run yet",
                why=f"commit {sink.commit} is not built",
                next=f"write commit: exact in conf/streams/{context.stream}.yaml, then: lakeward deploy",
                code="LW-2218",
            )
        writer = context.writer(IcebergWriter, str(sink.table), change=_change(sink))
        return cls(writer, sink=sink, additive=context.additive)

    @property
    def one_pass(self) -> bool:
        """An append has in `added-records` what it wrote."""
        return isinstance(self.writer.change, Append)

    def observe_table(self) -> ObservedSinkTable | None:
        """Read the table's metadata from the catalog."""
        stream, name = self.writer.stream, self.writer.table
        metadata = self._metadata()
        if metadata is None:
            return None
        state = jvm.state_of(metadata, stream, name)
        others = jvm.others_of(metadata, stream, name) if state.raw is None else {}
        return ObservedSinkTable(state, str(metadata.location()), others)

    def missing(self) -> BlockReason:
        """The table was dropped, or renamed to a table that the reason names."""
        return missing_table.block_reason(self.writer.session, self.writer.stream, self.writer.table)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(partition) for partition in self.sink.partition_by]
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, name, columns, fields, {**table.how_rows_change(self.sink), **self.sink.properties}):
            _log.info("table created", stream=stream, table=name, partition_by=fields)
            return
        self.fit = self._schema.evolve(columns, self.observed_raw)

    def adopt_columns(self, columns: Any) -> None:
        """Use the table's columns for rows that land beside the running stream; see `LakeSchema.adopt`."""
        self.fit = self._schema.adopt(columns)

    def remove_position_hint(self, other: str) -> str:
        place = spoken(self.writer.session, self.writer.table)
        unset = f"ALTER TABLE {place} UNSET TBLPROPERTIES ('{position.key(other)}')"
        return f": lakeward sql --write {word(unset)}"

    @property
    def _schema(self) -> LakeSchema:
        catalog = prefix(self.writer.session, self.writer.table)
        return LakeSchema(self.writer, catalog, self.additive, self._columns, self._alter)

    def _columns(self) -> TableColumns:
        """The columns, from the table's newest metadata."""
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        metadata = jvm.metadata_of(jvm.load(own, name))
        others = sorted(jvm.others_of(metadata, stream, name))
        return TableColumns(evolve.schema_of(own, metadata), jvm.state_of(metadata, stream, name), others)

    def _alter(self, table: TableColumns, compared: Comparison, moved: MovedPosition) -> None:
        """Columns and position in one commit."""
        evolve.evolve(self.writer.session, table.state, table.schema, compared, moved(None))

    def _metadata(self) -> Any:
        """The table's metadata; None without a table."""
        own, name = self.writer.session, self.writer.table
        try:
            # The catalog is loaded by its name first. Spark ignores a catalog that cannot be loaded, takes its name for
            # a namespace, and reports that.
            own._jsparkSession.sessionState().catalogManager().catalog(catalog_of(own, name))
            if not own.catalog.tableExists(in_lake(own, name)):
                return None
        except Exception as error:
            if jvm.trouble(error) in (jvm.Trouble.UNREACHABLE, jvm.Trouble.UNKNOWN):
                raise jvm.catalog_down(name, error) from error
            raise
        return jvm.metadata_of(jvm.load(own, name))


def _change(sink: IcebergSink) -> Change:
    """How a batch changes the table."""
    if sink.mode == "complete":
        return Replace()
    return Append() if sink.keys is None else Upsert(sink.keys, sink.order_by, sink.delete_when)
