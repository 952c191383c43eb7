"""Into an Iceberg table of the lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import evolve, jvm, missing_table, table
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.connectors.schema_evolution import Comparison
from lakeward.engine import schema
from lakeward.engine.sinks.exact import ObservedSinkTable
from lakeward.engine.sinks.lake import LakeLanding, Shape
from lakeward.platform.runtime import CATALOG
from lakeward.spec.model.sinks import IcebergSink
from lakeward.spec.sql.statements import quote_table

_log = structlog.get_logger(__name__)


@dataclass
class IcebergLanding(LakeLanding[IcebergWriter]):
    """An Iceberg sink."""

    sink: IcebergSink = field(kw_only=True)

    def see(self) -> ObservedSinkTable | None:
        """The table's metadata, out of the catalog."""
        stream, name = self.writer.stream, self.writer.table
        metadata = self._load()
        if metadata is None:
            return None
        state = jvm.state_of(metadata, stream, name)
        others = jvm.others_of(metadata, stream, name) if state.raw is None else {}
        return ObservedSinkTable(state, str(metadata.location()), others)

    def absent(self) -> BlockReason:
        """Dropped, or renamed to a table that is named."""
        return missing_table.block_reason(self.writer.session, self.writer.stream, self.writer.table)

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns with the transform's."""
        self.writer.stateful = stateful
        own, stream, name = self.writer.session, self.writer.stream, self.writer.table
        fields = [str(each) for each in self.sink.partition_by]
        schema.check_keys(stream, self.sink.keys or (), self.sink.order_by, columns)
        if table.create(own, name, columns, fields, {**table.how_rows_change(self.sink), **self.sink.properties}):
            _log.info("table created", stream=stream, table=name, partition_by=fields)
            return
        self.fits(columns)

    def without(self, other: str) -> str:
        unset = f"ALTER TABLE {CATALOG}.{self.writer.table} UNSET TBLPROPERTIES ('{position.key(other)}')"
        return f': lakeward sql --write "{unset}"'

    def shape(self) -> Shape:
        """Out of the table's newest metadata."""
        stream, name = self.writer.stream, self.writer.table
        metadata = jvm.metadata_of(jvm.load(self.writer.session, name))
        others = sorted(jvm.others_of(metadata, stream, name))
        return Shape(evolve.schema_of(self.writer.session, metadata), jvm.state_of(metadata, stream, name), others)

    def evolve(self, table: Shape, compared: Comparison, build: Callable[[int | None], Position | None]) -> None:
        """One commit of both."""
        evolve.evolve(self.writer.session, table.state, table.schema, compared, build(None))

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
            if jvm.trouble(error) in (jvm.Trouble.UNREACHABLE, jvm.Trouble.UNKNOWN):
                raise jvm.catalog_down(name, error) from error
            raise
        return jvm.metadata_of(jvm.load(own, name))
