"""A table that is not in the catalog any more: where its stream's position is now, or how the table comes back.

`DROP TABLE` without `PURGE` leaves the files, and Iceberg takes a table back by its newest metadata file.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg import jvm
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 200
"""So many tables are looked through for a position that moved with its table."""


def halt(session: SparkSession, stream: str, table: str) -> BlockReason:
    """What blocks a stream whose table is not there: renamed, where another table has its position; else dropped."""
    afresh = f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"
    other, landed = _holder(session, stream, table)
    if other is not None:
        back = f"ALTER TABLE {CATALOG}.{other} RENAME TO {table}"
        return BlockReason(
            "table-renamed",
            f"Table {table} of stream {stream} has another name now",
            f"{other} has its position: {landed}. Under its old name it would be made anew, empty",
            f'lakeward sql --write "{back}"   then: lakeward streams start {stream}; or {afresh}',
            code="LW-3074",
        )
    newest = _newest_metadata(session, table)
    call = f"CALL {CATALOG}.system.register_table(table => '{table}', metadata_file => '{newest}')"
    back = (
        f'lakeward sql --write "{call}"   takes it back with all its rows' if newest else "bring it back from a backup"
    )
    return BlockReason(
        "table-missing",
        f"Table {table} of stream {stream} is gone",
        "the catalog has no table of this name, and none has the stream's position: it was dropped. Made anew, it "
        "would hold nothing of what was landed",
        f"{back}; or {afresh}",
        code="LW-3073",
    )


def _holder(session: SparkSession, stream: str, table: str) -> tuple[str | None, str]:
    """The table that has the stream's position, and what was landed in it."""
    namespace = table.rpartition(".")[0]
    looked = 0
    for each in _namespaces(session, namespace):
        for name in _tables(session, each):
            looked += 1
            if looked > MOST:
                return None, ""
            with suppress(Exception):  # one that cannot be read is not the one that is looked for
                raw = jvm.metadata_of(jvm.load(session, name)).properties().get(position.key(stream))
                if raw is not None:
                    at = position.parse(raw, stream, name)
                    return name, f"{at.totals.landed:,} rows up to seq {at.seq}"
    return None, ""


def _namespaces(session: SparkSession, first: str) -> list[str]:
    """All of the catalog, the table's own first; none where it does not answer."""
    with suppress(Exception):
        rows = session.sql(f"SHOW NAMESPACES IN {CATALOG}").collect()
        return [first, *(str(row[0]) for row in rows if str(row[0]) != first)]
    return [first]


def _tables(session: SparkSession, namespace: str) -> list[str]:
    with suppress(Exception):
        rows = session.sql(f"SHOW TABLES IN {quote_table(namespace, CATALOG)}").collect()
        return [f"{namespace}.{row['tableName']}" for row in rows]
    return []


def _newest_metadata(session: SparkSession, table: str) -> str | None:
    """The newest metadata file where the table stood, on a warehouse of this machine; None where there is none."""
    warehouse = session.conf.get(f"spark.sql.catalog.{CATALOG}.warehouse", None) or ""
    folder = Path(re.sub(r"^file:(//)?(?=/)", "", warehouse), *table.split("."), "metadata")
    if not folder.is_absolute():
        return None
    try:
        files = [each for each in folder.glob("*.metadata.json") if each.name.partition("-")[0].isdigit()]
    except OSError:
        return None
    newest = max(files, key=lambda each: (int(each.name.partition("-")[0]), each.stat().st_mtime), default=None)
    return None if newest is None else str(newest)
