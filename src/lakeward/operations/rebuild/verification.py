"""Verification of a rebuilt table before the swap, from the rows of both tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import audit
from lakeward.connectors.iceberg.audit import scan
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.connectors.iceberg.quarantine import quarantine_stream_name
from lakeward.operations.rebuild.missing_rows import places
from lakeward.platform.errors import Unhealthy
from lakeward.platform.text import count, word
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.sql.names import dotted
from lakeward.spec.sql.statements import call_name

if TYPE_CHECKING:
    from pyiceberg.table import Table


ComparedPartition = TypedDict(
    "ComparedPartition", {"partition": str, "from": int, "to": int, "rows": int, "rows_before": int | None}
)
"""Rows of the same records in both tables; `rows_before` is None if the old rows carry no source position."""


class ProofData(TypedDict):
    """The counts of a fill; `missing` and `duplicates` are None where rows cannot be traced to records."""

    consumed: int
    landed: int
    quarantined: int
    filtered: int | None
    missing: int | None
    duplicates: int | None
    partitions: list[ComparedPartition]


@dataclass(frozen=True)
class Proof:
    """Result of the verification.

    Attributes:
        lines: sentences for people.
        data: the same facts as JSON values.
    """

    lines: tuple[str, ...]
    data: ProofData


def contiguous(stream: str, table: str, source: str, at: Position, live: Position, catalog: str) -> None:
    """Check that the fill ends exactly at the stream's position and read the same topics.

    Args:
        catalog: the name of the lake's catalog, for commands.

    Raises:
        Unhealthy: it does not.
    """
    filled_end, live_end = places(at.end[source]), places(live.end[source])
    apart = sorted(part for part in live_end if filled_end.get(part) != live_end[part])
    if apart:
        gaps = "; ".join(
            f"{t}/{p}: filled up to {filled_end.get((t, p))}, landed up to {live_end[t, p]}" for t, p in apart
        )
        raise _wrong(stream, table, gaps, catalog)
    other = sorted(t for t, known in at.topic_ids.items() if live.topic_ids.get(t, known) != known)
    if other:
        raise _wrong(stream, table, f"topic {', '.join(other)} was deleted and created again since", catalog)


def prove(
    stream: str,
    old: Table,
    new: Table,
    fill: str,
    at: Position,
    source: str,
    quarantine_table: Table | None,
    *,
    rows: bool,
) -> Proof:
    """Check that every record of the range is accounted for once, and compare the two tables.

    Args:
        old, new: freshly loaded.
        fill, at: the fill's name and position.
        quarantine_table: the quarantine table.
        rows: whether each row is one record (lineage `rows`).

    Raises:
        Unhealthy: rows are missing, duplicated, or not counted.
    """
    totals, name = at.totals, dotted(new.name())
    data: ProofData = {
        "consumed": totals.consumed,
        "landed": totals.landed,
        "quarantined": totals.quarantined,
        "filtered": totals.filtered if rows else None,
        "missing": None,
        "duplicates": None,
        "partitions": [],
    }
    if not rows:
        return Proof(("contiguous up to the position; rows are not counted against records (lineage none)",), data)
    counted = audit.audit(new, quarantine_stream_name(fill, name), at, quarantine_table)
    # Transaction markers and compacted records are offsets without a record: only records that were read count.
    holes = counted.consumed - totals.consumed
    missing = counted.missing - holes
    if missing or counted.duplicates or counted.beyond or holes < 0:
        raise _wrong(
            stream,
            name,
            f"of {count(totals.consumed, 'record')} {missing:,} are missing, {counted.duplicates:,} are duplicated, "
            f"and {counted.beyond:,} rows were not counted",
            prefix_of(new),
        )
    data["missing"], data["duplicates"], data["partitions"] = 0, 0, _compared(old, new, at, source)
    lines = [
        f"{count(totals.consumed, 'record')}: {totals.landed:,} landed, {totals.quarantined:,} in quarantine, "
        f"{totals.filtered:,} filtered; 0 missing, 0 doubled"
        + (f"; {holes:,} offsets without a record" if holes else "")
    ]
    lines += [
        f"{part['partition']}: {part['rows_before']:,} rows before, {part['rows']:,} now"
        for part in data["partitions"]
        if part["rows_before"] is not None
    ]
    return Proof(tuple(lines), data)


def _compared(old: Table, new: Table, at: Position, source: str) -> list[ComparedPartition]:
    """Rows of the same records in both tables, by partition; None if the old rows carry no source position."""
    low, high = places(at.begin[source]), places(at.end[source])
    now = counting.rows_between(scan(new), low, high)
    traced = set(IDENTITY_COLUMNS["kafka"]) <= set(old.schema().column_names)
    then = counting.rows_between(scan(old), low, high) if traced else {}
    return [
        {
            "partition": f"{topic}/{part}",
            "from": low[topic, part],
            "to": to,
            "rows": now.get((topic, part), (0, 0))[0],
            "rows_before": then.get((topic, part), (0, 0))[0] if traced else None,
        }
        for (topic, part), to in sorted(high.items())
    ]


def _wrong(stream: str, table: str, why: str, catalog: str) -> Unhealthy:
    return Unhealthy(
        f"Table {table} failed verification; nothing was swapped, and stream {stream} continues in its own table",
        why=why,
        next="drop it and repeat the rebuild: lakeward sql --write "
        f"{word(f'DROP TABLE {call_name(table, catalog)}')}   "
        f'then: lakeward streams rebuild {stream} --comment "again, after a failed verification"',
        code="LW-2044",
    )
