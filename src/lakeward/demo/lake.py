"""Reader of the demo's tables through PyIceberg: positions, windows, and sizes from metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.position import Position as TablePosition
from lakeward.connectors.commit_protocol.position import key, parse
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.connectors.iceberg.quarantine import STREAM
from lakeward.demo.broker import Position
from lakeward.demo.oracle import WindowRow
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_WINDOW_COLUMNS = ("hour", "origin", "flights", "departed", "late", "delay_minutes", "worst_delay")


@dataclass(frozen=True)
class Shape:
    """The size of a table, from its metadata."""

    files: int
    rows: int
    snapshots: int


class DemoLake:
    """The tables of one runtime. Every call loads the table again."""

    def __init__(self, runtime: Runtime) -> None:
        self._catalog: Catalog = load_lake(runtime.lake, runtime.pgpass)

    def _load(self, name: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(name_parts(name))
        except NoSuchTableError:
            return None

    def position(self, table: str, stream: str) -> TablePosition | None:
        """The position of a stream in a table; None before its first batch."""
        loaded = self._load(table)
        text = None if loaded is None else loaded.properties.get(key(stream))
        return None if text is None else parse(text, stream, table)

    def shape(self, table: str) -> Shape:
        """Files, rows and snapshots of the table's head; zeros before it exists."""
        loaded = self._load(table)
        head = None if loaded is None else loaded.current_snapshot()
        if loaded is None or head is None:
            return Shape(0, 0, 0)
        summary = dict(head.summary.additional_properties) if head.summary else {}
        return Shape(
            int(summary.get("total-data-files", 0)),
            int(summary.get("total-records", 0)),
            len(loaded.metadata.snapshots),
        )

    def positions(self, table: str, topic: str, stream: str | None = None) -> list[Position]:
        """The source positions of all rows from `topic`; with `stream`, of one stream's rows in quarantine."""
        loaded = self._load(table)
        if loaded is None or loaded.current_snapshot() is None:
            return []
        rows = self._scan(loaded, [*IDENTITY_COLUMNS["kafka"], *([STREAM] if stream else [])])
        return [
            Position(row["_kafka_partition"], row["_kafka_offset"])
            for row in rows
            if row["_kafka_topic"] == topic and (stream is None or row[STREAM] == stream)
        ]

    def windows(self, table: str) -> list[WindowRow]:
        """The rows of the windowed table."""
        loaded = self._load(table)
        if loaded is None or loaded.current_snapshot() is None:
            return []
        return [
            WindowRow((_ms(row["hour"]), row["origin"]), tuple(row[name] for name in _WINDOW_COLUMNS[2:]))
            for row in self._scan(loaded, _WINDOW_COLUMNS)
        ]

    @staticmethod
    def _scan(table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = table.scan(selected_fields=tuple(columns)).to_arrow().to_pylist()
        return rows


def _ms(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)
