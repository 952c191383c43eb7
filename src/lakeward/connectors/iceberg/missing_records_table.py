"""A table that was dropped with rejected or late records in it: the block of its stream, and the ways back."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.connectors.commit_protocol import erased
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg import missing_table
from lakeward.connectors.iceberg.quarantine import STREAM
from lakeward.platform.runtime import Lake
from lakeward.platform.text import count, word
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.spec.sql.statements import call_name, quote, quote_text

REASON, LATE_REASON = "quarantine-missing", "late-missing"


def block_reason(stream: str, table: str, records: int, lake: Lake) -> BlockReason:
    """The block reason of a missing quarantine table.

    A table that was dropped without `PURGE` is registered again. An empty one gives its records up; the stream adds the
    other columns when it starts.

    Args:
        records: how many records of the stream were in it and have not landed since.
        lake: its catalog, and where the files of the table are.
    """
    return BlockReason(
        REASON,
        f"Quarantine table {table} of stream {stream} was dropped",
        f"{count(records, 'rejected record')} of the stream {_were(records)} in it, and in no other table; a new table "
        "would have none of them",
        _ways(stream, table, records, lake),
        code="LW-3450",
    )


def late_block_reason(stream: str, table: str, records: int, where: Sequence[str], lake: Lake) -> BlockReason:
    """The block reason of a missing table of late records.

    Args:
        records: how many late records of the stream were kept in it.
        where: the batches that kept them, as far as they are known.
        lake: its catalog, and where the files of the table are.
    """
    place = f" ({'; '.join(where)})" if where else ""
    return BlockReason(
        LATE_REASON,
        f"Table {table}, which keeps late records of stream {stream}, was dropped",
        f"{count(records, 'late record')}{place} of the stream {_were(records)} in it; a new table would have none of "
        "them",
        _ways(stream, table, records, lake),
        code="LW-3482",
    )


def give_up(stream: str, table: str, records: int, lake: Lake) -> str:
    """The step that gives up rejected records whose rows somebody deleted: they count as erased, here and in the audit.

    Args:
        records: how many records of the stream were erased from the table then, earlier ones included.
    """
    properties = f"{quote_text(erased.key(stream))} = {quote_text(str(records))}"
    statement = word(f"ALTER TABLE {call_name(table, prefix_in(lake, table))} SET TBLPROPERTIES ({properties})")
    return f"lakeward sql --write {statement}   gives them up: they count as erased; or put their rows back"


def _were(records: int) -> str:
    return "was" if records == 1 else "were"


def _ways(stream: str, table: str, records: int, lake: Lake) -> str:
    """The ways to go on without a table that had records: it comes back, or they are given up."""
    start = f"lakeward streams start {stream}"
    newest = missing_table.newest_in(lake, table, records)
    columns = f"({quote(STREAM)} STRING) USING iceberg PARTITIONED BY ({quote(STREAM)})"
    empty = word(f"CREATE TABLE {call_name(table, prefix_in(lake, table))} {columns}")
    give_up = f"lakeward sql --write {empty}   gives them up; then: {start}"
    if newest is None:
        ways = [give_up, f"restore the table from a backup, then: {start}"]
    else:
        ways = [missing_table.register(table, newest, stream, prefix_in(lake, table)), give_up]
    return "; or ".join(ways)
