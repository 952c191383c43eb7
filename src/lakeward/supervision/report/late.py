"""Late records in the recorded batches of a stream: how many were dropped, and how many were kept in a table.

The registry has one number a batch, `late_dropped`, also for a generation that keeps late records. The spec of each
generation says whether it keeps them; here, and nowhere else, the number is split by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from sqlalchemy import Connection

from lakeward.connectors.iceberg.missing_records_table import late_block_reason
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import count, listed
from lakeward.registry import batches, generations
from lakeward.registry.batches import Batch
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.names import name_parts
from lakeward.supervision.report.quarantine_loss import SHOWN, batch_spans, in_words


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


@dataclass(frozen=True)
class Kept:
    """Late records that a stream kept in one table.

    Attributes:
        records: their number.
        where: the newest of their batches, newest first: `2 of flights/0: 5 to 9`.
    """

    records: int = 0
    where: tuple[str, ...] = ()


def kept_in(connection: Connection, stream: str, table: str) -> Kept:
    """The late records that the recorded batches of a stream kept in a table."""
    within = {number for number, name in generations.late_tables(connection, stream).items() if name == table}
    counted = batches.late(connection, stream)
    newest = batches.keeping_late(connection, stream, within, SHOWN)
    return Kept(
        sum(records for number, (records, _) in counted.items() if number in within),
        tuple(in_words(batch_spans(batch), batch.late_dropped or 0) for batch in newest),
    )


@dataclass(frozen=True)
class LateState:
    """The table in which a stream keeps late records.

    Attributes:
        table: its name.
        missing: whether there is no such table.
        records: late records of the stream that were in the missing table.
        where, next: as in `QuarantineState`.
    """

    table: str
    missing: bool = False
    records: int = 0
    where: tuple[str, ...] = ()
    next: str = ""

    @property
    def text(self) -> str:
        """What is lost, in a sentence; empty if nothing is."""
        if not self.records:
            return ""
        place = f" ({'; '.join(self.where)})" if self.where else ""
        lost = f"{count(self.records, 'late record')}{place} {'is' if self.records == 1 else 'are'} in no table"
        return f"{lost}: table {self.table} does not exist any more"


def state(runtime: Runtime, spec: StreamSpec, kept: Callable[[str], Kept]) -> LateState | None:
    """Ask the catalog for the table of late records; None for a stream that has none.

    Args:
        kept: reads from the registry what the stream kept in a table.
    """
    if spec.late is None:
        return None
    from lakeward.connectors.iceberg.catalog import load_lake

    table = str(spec.late.table)
    lake = runtime.lake
    if load_lake(lake, runtime.pgpass).table_exists(name_parts(table)):
        return LateState(table)
    found = kept(table)
    if not found.records:
        return LateState(table, missing=True)
    block = late_block_reason(str(spec.id), table, found.records, found.where, lake)
    return LateState(table, True, found.records, found.where, block.next)


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
