"""A dropped or renamed table: finds the table that has its stream's position, or the command that restores it.

`DROP TABLE` without `PURGE` leaves the files, and `register_table` restores a table from its newest metadata file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.qualified import catalog_of, local_parts, namespace_in_lake, prefix, procedure, spoken
from lakeward.platform.runtime import Lake
from lakeward.platform.text import word
from lakeward.spec.model.file_paths import local
from lakeward.spec.sql.catalogs import lake_of
from lakeward.spec.sql.names import dotted, name_parts, namespace_of
from lakeward.spec.sql.statements import argument, call_name, quote, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 200
"""The most tables that are searched for the position of a renamed table."""
_READ = 20
"""How many metadata files are compared, of the newest ones and of those with the highest numbers."""


def block_reason(session: SparkSession, stream: str, table: str) -> BlockReason:
    """The block reason of a missing table: renamed if another table has the stream's position, else dropped."""
    new_table = f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"
    other, landed = _holder(session, stream, table)
    if other is not None:
        back = f"ALTER TABLE {spoken(session, other)} RENAME TO {call_name(dotted(local_parts(session, table)))}"
        return BlockReason(
            "table-renamed",
            f"Table {table} of stream {stream} was renamed to {other}",
            f"{other} has the stream's position: {landed}. A start would create an empty table {table}",
            f"lakeward sql --write {word(back)}   then: lakeward streams start {stream}; or {new_table}",
            code="LW-3074",
        )
    warehouse = session.conf.get(f"spark.sql.catalog.{catalog_of(session, table)}.warehouse", None)
    newest = newest_metadata(warehouse or "", dotted(local_parts(session, table)))
    start = f"lakeward streams start {stream}"
    back = f"restore it from a backup, then: {start}"
    if newest:
        back = register(table, newest, stream, prefix(session, table))
    return BlockReason(
        "table-missing",
        f"Table {table} of stream {stream} was dropped",
        "the catalog has no table of this name, and no table has the stream's position. A new table would have none "
        "of the landed rows",
        f"{back}; or {new_table}",
        code="LW-3073",
    )


def register(table: str, newest: str, stream: str, catalog: str) -> str:
    """The step that brings a dropped table back from its newest metadata file, and starts a stream."""
    made = f"(table => {argument(table)}, metadata_file => {quote_text(newest)})"
    call = f"{procedure('register_table', table, catalog)}{made}"
    start = f"lakeward streams start {stream}"
    return f"lakeward sql --write {word(call)}   restores it with all its rows; then: {start}"


def _holder(session: SparkSession, stream: str, table: str) -> tuple[str | None, str]:
    """The table that has the stream's position, and its landed rows as text."""
    searched = 0
    for candidate in _namespaces(session, table):
        for name in _tables(session, candidate):
            searched += 1
            if searched > MOST:
                return None, ""
            with suppress(Exception):  # an unreadable table is skipped
                raw = jvm.metadata_of(jvm.load(session, name)).properties().get(position.key(stream))
                if raw is not None:
                    at = position.parse(raw, stream, name)
                    return name, f"{at.totals.landed:,} rows up to seq {at.seq}"
    return None, ""


def _namespaces(session: SparkSession, table: str) -> list[str]:
    """The namespaces of a table's catalog, its own first; only that one if the catalog does not answer."""
    first, catalog = namespace_of(table), catalog_of(session, table)
    before = "" if prefix(session, table) else f"{catalog}."
    with suppress(Exception):
        rows = session.sql(f"SHOW NAMESPACES IN {quote(catalog)}").collect()
        return [first, *(name for row in rows if (name := f"{before}{row[0]}") != first)]
    return [first]


def _tables(session: SparkSession, namespace: str) -> list[str]:
    with suppress(Exception):
        parts = name_parts(namespace)
        rows = session.sql(f"SHOW TABLES IN {namespace_in_lake(session, dotted((*parts, '_')))}").collect()
        return [dotted((*parts, row["tableName"])) for row in rows]
    return []


def newest_in(lake: Lake, table: str, least: int = 0) -> str | None:
    """`newest_metadata` of a table in the warehouse of its catalog."""
    there = lake_of(lake, table)
    name = table if there is lake else dotted(name_parts(table)[1:])
    return newest_metadata(there.warehouse, name, least)


def newest_metadata(warehouse: str, table: str, least: int = 0) -> str | None:
    """The newest metadata file of the table in a warehouse on this machine; None if there is none.

    The folder may also have files of earlier tables of this name, whose numbers may be higher.

    Args:
        least: rows that the table must have had; a file of an earlier table has fewer.
    """
    folder = Path(local(warehouse), *name_parts(table), "metadata")
    if not folder.is_absolute():
        return None
    try:
        files = [file for file in folder.glob("*.metadata.json") if file.name.partition("-")[0].isdigit()]
        by_time = sorted(files, key=lambda file: file.stat().st_mtime)[-_READ:]
    except OSError:
        return None
    by_number = sorted(files, key=lambda file: int(file.name.partition("-")[0]))[-_READ:]
    read = {file: _content(file) for file in {*by_time, *by_number}}
    newest = max(read, key=lambda file: (int(read[file].get("last-updated-ms") or 0), file.name), default=None)
    return None if newest is None or not read[newest] or _rows(read[newest]) < least else str(newest)


def _content(file: Path) -> Mapping[str, Any]:
    """A metadata file; empty if it cannot be read, which sorts it behind the others."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _rows(metadata: Mapping[str, Any]) -> int:
    """The rows of the table at one version of its metadata."""
    head = metadata.get("current-snapshot-id")
    summaries = [each.get("summary") or {} for each in metadata.get("snapshots") or () if each["snapshot-id"] == head]
    return int(summaries[0].get("total-records") or 0) if summaries else 0
