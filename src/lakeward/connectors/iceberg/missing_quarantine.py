"""A quarantine table that was dropped with rejected records in it: the block of its stream, and the ways back."""

from __future__ import annotations

from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg import missing_table
from lakeward.connectors.iceberg.quarantine import STREAM
from lakeward.platform.runtime import CATALOG
from lakeward.platform.text import count, word
from lakeward.spec.sql.statements import call_name, quote

REASON = "quarantine-missing"


def block_reason(stream: str, table: str, records: int, warehouse: str) -> BlockReason:
    """The block reason of a missing quarantine table.

    A table that was dropped without `PURGE` is registered again. An empty one gives its records up; the stream adds the
    other columns when it starts.

    Args:
        records: how many records of the stream were in it and have not landed since.
        warehouse: of the lake, where the files of the table are.
    """
    start = f"lakeward streams start {stream}"
    newest = missing_table.newest_metadata(warehouse, table, records)
    columns = f"({quote(STREAM)} STRING) USING iceberg PARTITIONED BY ({quote(STREAM)})"
    empty = word(f"CREATE TABLE {call_name(table, CATALOG)} {columns}")
    give_up = f"lakeward sql --write {empty}   gives them up; then: {start}"
    if newest is None:
        ways = [give_up, f"restore the table from a backup, then: {start}"]
    else:
        ways = [missing_table.register(table, newest, stream), give_up]
    return BlockReason(
        REASON,
        f"Quarantine table {table} of stream {stream} was dropped",
        f"{count(records, 'rejected record')} of the stream {'was' if records == 1 else 'were'} in it, and in no other "
        "table; a new table would have none of them",
        "; or ".join(ways),
        code="LW-3450",
    )
