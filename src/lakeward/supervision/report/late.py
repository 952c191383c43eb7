"""Late records in the recorded batches of a stream: how many were dropped, and how many were kept in a table.

The registry has one number a batch, `late_dropped`, also for a generation that keeps late records. The spec of each
generation says whether it keeps them; here, and nowhere else, the number is split by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from sqlalchemy import Connection

from lakeward.platform.text import listed
from lakeward.registry import batches, generations
from lakeward.registry.batches import Batch


class LateCounts(TypedDict):
    """Late records of one batch that were dropped, and that were kept; None where they were not counted."""

    late_dropped: int | None
    late_kept: int | None


@dataclass(frozen=True)
class LateRecords:
    """Late records in the recorded batches.

    Attributes:
        records: their number.
        since: when the first of these batches was committed; None without one.
        tables: the tables that have them; empty if they were dropped.
    """

    records: int = 0
    since: datetime | None = None
    tables: tuple[str, ...] = ()


NONE = LateRecords()


def split(recorded: int | None, table: str | None) -> LateCounts:
    """The recorded number of late records of a batch, as dropped or as kept. Pure.

    Args:
        recorded: `Batch.late_dropped`.
        table: where the batch's generation keeps late records (`generations.late_table`); None: Spark drops them.
    """
    if recorded is None:
        return {"late_dropped": None, "late_kept": None}
    return {"late_dropped": recorded if table is None else 0, "late_kept": 0 if table is None else recorded}


def read(connection: Connection, stream: str) -> tuple[LateRecords, LateRecords]:
    """The late records of a stream that were dropped, and those that were kept."""
    tables = generations.late_tables(connection, stream)
    parts: dict[bool, list[tuple[int, datetime, str]]] = {False: [], True: []}
    for number, (records, since) in batches.late(connection, stream).items():
        table = tables.get(number, "")
        parts[bool(table)].append((records, since, table))
    dropped, kept = (
        LateRecords(
            sum(records for records, _, _ in found),
            min((since for _, since, _ in found), default=None),
            tuple(sorted({table for _, _, table in found if table})),
        )
        for found in parts.values()
    )
    return dropped, kept


def of_batches(connection: Connection, stream: str, recorded: Iterable[Batch]) -> list[dict[str, object]]:
    """Recorded batches of one stream as JSON, with the late records that were dropped and those that were kept."""
    tables = generations.late_tables(connection, stream)
    return [{**each.as_json(), **split(each.late_dropped, tables.get(each.generation))} for each in recorded]


def words(dropped: LateRecords | None, kept: LateRecords | None) -> str:
    """What became of late records: `12 kept in nyc.late, 3 dropped`; empty without any."""
    parts = []
    if kept is not None and kept.records:
        parts.append(f"{kept.records:,} kept in {listed(list(kept.tables))}")
    if dropped is not None and dropped.records:
        parts.append(f"{dropped.records:,} dropped")
    return ", ".join(parts)
