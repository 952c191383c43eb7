"""Missing rows after a rebuild: rows of records that have expired at the source or are not read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.iceberg.audit import scan
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.records import Partition
from lakeward.platform.text import count
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class MissingRows:
    """Rows that the new table will lack, counted at the plan and again before the swap.

    Attributes:
        number: rows of the old table; records by offsets if its rows carry no source position.
        rows: whether `number` counts rows.
        lines: one sentence for each range.
    """

    number: int
    rows: bool
    lines: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return count(self.number, "row" if self.rows else "record")


def places(text: str) -> dict[Partition, int]:
    """Canonical offsets as (topic, partition) -> offset."""
    if text == NO_DATA:
        return {}
    return {(topic, part): at for topic, parts in kafka_position.parse(text).items() for part, at in parts.items()}


def missing_rows(table: Table, first: str, start: str, end: str) -> MissingRows:
    """Rows of a table that lie outside a range.

    Args:
        table: the stream's, freshly loaded.
        first: where its stream began; `-` if unknown.
        start, end: the range that is read again.
    """
    low, high = places(start), places(end)
    if not set(IDENTITY_COLUMNS["kafka"]) <= set(table.schema().column_names):
        return _by_offsets(places(first), low, high)
    # The stream itself reads rows beyond its position again, so only rows in no range are lost.
    inside = sum(rows for rows, _ in counting.rows_between(scan(table), low, high).values())
    whole = 0 if table.current_snapshot() is None else table.scan().count()
    older = counting.rows_between(scan(table), dict.fromkeys(low, 0), low)
    lines = [
        f"{topic}/{part}: {count(rows, 'row')} of records before offset {low[topic, part]}"
        for (topic, part), (rows, _) in sorted(older.items())
        if rows
    ]
    other = whole - inside - sum(rows for rows, _ in older.values())
    if other:
        lines.append(f"{count(other, 'row')} of no record in this range (other topics, or written by hand)")
    return MissingRows(whole - inside, rows=True, lines=tuple(lines))


def _by_offsets(
    first: Mapping[Partition, int], low: Mapping[Partition, int], high: Mapping[Partition, int]
) -> MissingRows:
    expired = {part: (first.get(part, 0), low[part]) for part in high if part in low and first.get(part, 0) < low[part]}
    lines = tuple(
        f"{topic}/{part}: {count(to - at, 'record')}, offsets {at} to {to - 1}"
        for (topic, part), (at, to) in sorted(expired.items())
    )
    return MissingRows(sum(to - at for at, to in expired.values()), rows=False, lines=lines)
