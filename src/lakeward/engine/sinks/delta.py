"""Into a Delta table of the lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors import schema_evolution
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import evolve, jvm, location, table
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.connectors.schema_evolution import Comparison
from lakeward.engine import schema
from lakeward.engine.sinks.exact import ObservedSinkTable
from lakeward.engine.sinks.lake import LakeLanding, Shape
from lakeward.platform.errors import expect
from lakeward.platform.runtime import Lake
from lakeward.spec.model.sinks import DeltaSink

_log = structlog.get_logger(__name__)


@dataclass
class DeltaLanding(LakeLanding[DeltaWriter]):
    """A Delta sink."""

    sink: DeltaSink = field(kw_only=True)
    lake: Lake = field(kw_only=True)

    def see(self) -> ObservedSinkTable | None:
        """The table's newest version, out of its folder."""
        stream, name, folder = self.writer.stream, self.writer.table, self.writer.folder
        if not location.exists(folder):
            return None
        state = self.writer.load(self.writer.session)
        snapshot = jvm.begin(self.writer.session, folder, name).snapshot()
        others = jvm.others_of(snapshot, folder, stream, name) if state.raw is None else {}
        return ObservedSinkTable(state, str(folder), others)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(each) for each in self.sink.partition_by]
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, self.lake, name, columns, fields):
            _log.info("table created", stream=stream, table=name, partition_by=fields, folder=str(self.writer.folder))
            return
        self.fits(columns)

    def without(self, other: str) -> str:
        # Nothing but a commit of Delta's own API removes domain metadata.
        return ", land into a table of its own: the position of the other one cannot be taken out of a Delta table"

    @property
    def catalog(self) -> str:
        return location.CATALOG

    def comparable(self, compared: Comparison) -> Comparison:
        """What stands in the way is said where the table may be changed; elsewhere every difference is."""
        return schema_evolution.in_delta(compared) if self.additive else compared

    def shape(self) -> Shape:
        """Out of the table's newest version."""
        stream, name, folder = self.writer.stream, self.writer.table, self.writer.folder
        snapshot = jvm.begin(self.writer.session, folder, name).snapshot()
        others = sorted(jvm.others_of(snapshot, folder, stream, name))
        state = jvm.state_of(snapshot, folder, stream, name)
        return Shape(json.loads(snapshot.metadata().schemaString()), state, others)

    def evolve(self, table: Shape, compared: Comparison, build: Callable[[int | None], Position | None]) -> None:
        """The position first, then the columns."""
        session, folder = self.writer.session, self.writer.folder
        if table.state.position is not None:
            evolve.fence(session, folder, table.state, lambda version: expect(build(version), "the moved position"))
        evolve.add(session, folder, compared)
