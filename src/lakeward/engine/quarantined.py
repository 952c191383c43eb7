"""The tables of rejected and of late records of a stream that starts: created, unless dropped with records in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol import replay
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm, missing_records_table, quarantine
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.replay import read_state
from lakeward.platform.errors import Refused, expect
from lakeward.platform.runtime import Lake
from lakeward.platform.text import count
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Named = Callable[[str], Collection[str] | None]
"""Stream -> the quarantine tables that its generations name; None while the registry is down."""
Kept = Callable[[str, str], tuple[int, Sequence[str]] | None]
"""(stream, table) -> how many late records the stream kept in the table, and where; None while the registry is down."""


def prepare(session: SparkSession, spec: StreamSpec, position: Position | None, lake: Lake, named: Named) -> None:
    """Create the quarantine table unless it exists.

    Args:
        position: of the sink, which counts the rejected records; None if it counts none.
        named: the tables that may have them: a generation may name another one than the generation before.

    Raises:
        Blocked: the table does not exist, and rejected records were in it (`quarantine-missing`).
    """
    table, stream = str(expect(spec.quarantine, "`quarantine`").table), str(spec.id)
    rejected = position.totals.quarantined if position is not None else 0
    if rejected and not session.catalog.tableExists(in_lake(session, table)):
        tables = named(stream)
        # Without the registry it is not known whether another table has them. The status says afterwards what is lost.
        rejected = 0 if tables is None else rejected - _replayed(session, spec)
        for other in sorted(set(tables or ()) - {table}):
            rejected -= _rows(session, other, stream)
        if rejected > 0:
            raise missing_records_table.block_reason(stream, table, rejected, lake).error()
    quarantine.create(session, table)


def prepare_late(session: SparkSession, spec: StreamSpec, lake: Lake, kept: Kept) -> None:
    """Create the table of late records unless it exists.

    Raises:
        Blocked: the table does not exist, and late records were kept in it (`late-missing`).
    """
    table, stream = str(expect(spec.late, "`late`").table), str(spec.id)
    if not session.catalog.tableExists(in_lake(session, table)):
        records, where = kept(stream, table) or (0, ())
        if records:
            raise missing_records_table.late_block_reason(stream, table, records, where, lake).error()
    quarantine.create(session, table)


def exists(session: SparkSession, spec: StreamSpec) -> bool:
    """Whether a stream's quarantine table exists, for an operation on its rows.

    Raises:
        Refused: it does not, although it should have rows. A new table would look as if no record had been rejected.
    """
    table, stream = str(expect(spec.quarantine, "`quarantine`").table), str(spec.id)
    if session.catalog.tableExists(in_lake(session, table)):
        return True
    sink = str(spec.sink.label)
    if spec.sink.iceberg is not None and session.catalog.tableExists(in_lake(session, sink)):
        position = read_state(session, sink, stream).state.position
        rejected = position.totals.quarantined - _replayed(session, spec) if position is not None else 0
        if rejected > 0:
            raise Refused(
                f"Quarantine table {table} of stream {stream} does not exist",
                why=f"{count(rejected, 'record')} that the stream rejected landed nowhere since; a new table would "
                "have none of them",
                next=f"lakeward streams start {stream}   creates the table, or says how the dropped one comes back",
                code="LW-3480",
            )
    return False


def _replayed(session: SparkSession, spec: StreamSpec) -> int:
    """How many rejected records have landed since, or were dropped by a newer transform; only Iceberg sinks replay."""
    if spec.sink.iceberg is None:
        return 0
    name = str(spec.sink.iceberg.table)
    done = replay.of(jvm.metadata_of(jvm.load(session, name)).properties(), str(spec.id), name).totals
    return done.landed + done.filtered


def _rows(session: SparkSession, table: str, stream: str) -> int:
    """How many records of a stream another quarantine table has."""
    from pyspark.sql import functions as F

    name = in_lake(session, table)
    if not session.catalog.tableExists(name):
        return 0
    return session.table(name).where(F.col(quarantine.STREAM) == F.lit(stream)).count()
