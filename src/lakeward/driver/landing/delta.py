"""Into a Delta table of the lake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.delta import java, place, table
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.driver import schema
from lakeward.driver.landing.exact import ExactLanding, Seen
from lakeward.runtime import Lake
from lakeward.spec.sinks import DeltaSink

_log = structlog.get_logger(__name__)


@dataclass
class DeltaLanding(ExactLanding[DeltaWriter]):
    """A Delta sink."""

    sink: DeltaSink = field(kw_only=True)
    lake: Lake = field(kw_only=True)

    def see(self) -> Seen | None:
        """The table's newest version, out of its folder."""
        stream, name, folder = self.writer.stream, self.writer.table, self.writer.folder
        if not place.exists(folder):
            return None
        state = self.writer.load(self.writer.session)
        snapshot = java.begin(self.writer.session, folder, name).snapshot()
        others = java.others_of(snapshot, folder, stream, name) if state.raw is None else {}
        return Seen(state, str(folder), others)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(each) for each in self.sink.partition_by]
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, self.lake, name, columns, fields):
            _log.info("table created", stream=stream, table=name, partition_by=fields, folder=str(self.writer.folder))
            return
        self.fits(columns, own.read.format("delta").load(str(self.writer.folder)).schema)
