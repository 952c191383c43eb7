"""The Delta sink."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors import schema_evolution
from lakeward.connectors.delta import evolve, jvm, location, table
from lakeward.connectors.delta.change import Append, Change, Replace, Upsert
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.connectors.schema_evolution import Comparison
from lakeward.engine import schema
from lakeward.engine.sinks.base import SinkContext
from lakeward.engine.sinks.evolution import MovedPosition
from lakeward.engine.sinks.exact import ExactSink, ObservedSinkTable
from lakeward.engine.sinks.lake_schema import LakeSchema, TableColumns
from lakeward.platform.errors import expect
from lakeward.platform.runtime import Lake
from lakeward.spec.model.sinks import DeltaSink

_log = structlog.get_logger(__name__)


@dataclass
class DeltaStreamSink(ExactSink[DeltaWriter]):
    """A Delta table of the lake."""

    sink: DeltaSink = field(kw_only=True)
    tried = True
    additive: bool = field(kw_only=True)
    lake: Lake = field(kw_only=True)

    @classmethod
    def of(cls, context: SinkContext) -> DeltaStreamSink:
        """Make the sink of a spec."""
        sink, lake = expect(context.spec.sink.delta, "`sink.delta`"), context.runtime.lake
        name = str(sink.table)
        writer = context.writer(DeltaWriter, name, folder=location.folder_of(lake, name), change=_change(sink))
        return cls(writer, sink=sink, additive=context.additive, lake=lake)

    @property
    def one_pass(self) -> bool:
        """An append has in the footers of its data files what it wrote; no commit names them yet."""
        return isinstance(self.writer.change, Append)

    def observe_table(self) -> ObservedSinkTable | None:
        """Read the table's newest version from its folder."""
        stream, name, folder = self.writer.stream, self.writer.table, self.writer.folder
        if not location.exists(folder):
            return None
        state = self.writer.load(self.writer.session)
        snapshot = jvm.begin(self.writer.session, folder, name).snapshot()
        others = jvm.others_of(snapshot, folder, stream, name) if state.raw is None else {}
        return ObservedSinkTable(state, str(folder), others)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's. First the store is tried: the creation is a
        commit."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(column) for column in self.sink.partition_by]
        jvm.try_store(own, self.writer.folder)
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, self.lake, name, columns, fields):
            _log.info("table created", stream=stream, table=name, partition_by=fields, folder=str(self.writer.folder))
            return
        self.fit = self._schema.evolve(columns, self.observed_raw)

    def remove_position_hint(self, other: str) -> str:
        # Only a commit through Delta's own API removes domain metadata.
        own_table = super().remove_position_hint(other)
        return f"{own_table} (the position of the other one cannot be taken out of a Delta table)"

    @property
    def _schema(self) -> LakeSchema:
        return LakeSchema(
            self.writer, location.CATALOG, self.additive, self._columns, self._alter, supported=self._supported
        )

    def _supported(self, compared: Comparison) -> Comparison:
        """What Delta cannot do matters only for a table that may be changed; else every difference is refused."""
        return schema_evolution.in_delta(compared) if self.additive else compared

    def _columns(self) -> TableColumns:
        """The columns, from the table's newest version."""
        stream, name, folder = self.writer.stream, self.writer.table, self.writer.folder
        snapshot = jvm.begin(self.writer.session, folder, name).snapshot()
        others = sorted(jvm.others_of(snapshot, folder, stream, name))
        state = jvm.state_of(snapshot, folder, stream, name)
        return TableColumns(json.loads(snapshot.metadata().schemaString()), state, others)

    def _alter(self, table: TableColumns, compared: Comparison, moved: MovedPosition) -> None:
        """First the position, then the columns: Delta's ALTER TABLE cannot commit both."""
        session, folder = self.writer.session, self.writer.folder
        if table.position is not None:
            evolve.fence(session, folder, table.state, lambda version: expect(moved(version), "the moved position"))
        evolve.add(session, folder, compared)


def _change(sink: DeltaSink) -> Change:
    """How a batch changes the table."""
    if sink.mode == "complete":
        return Replace()
    return Append() if sink.keys is None else Upsert(sink.keys, sink.order_by, sink.delete_when)
