"""A table of PostgreSQL and the positions beside it: read from the catalog, made when they are missing.

Statements take names through `name.quote` and values bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.columns import Column, Index
from lakeward.connectors.postgres.name import Name, listed, quote
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from psycopg2.extensions import connection

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a type",
    "i": "an index",
}
_FIND = """
SELECT c.oid, c.relkind, c.relpersistence = 'u' OR EXISTS (
    SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class k ON k.oid = p.relid WHERE k.relpersistence = 'u')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_WHERE = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"
_COLUMNS = """
SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), t.oid),
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END),
       format_type(a.atttypid, a.atttypmod), a.atthasdef OR a.attidentity <> '',
       CASE WHEN a.attgenerated <> '' THEN 'EXPRESSION' WHEN a.attidentity = 'a' THEN 'IDENTITY' ELSE '' END,
       a.attnotnull, t.typtype = 'e'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_INDEXES = """
SELECT array_agg(a.attname::text), {nulls}
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND k.n <= i.indnkeyatts
GROUP BY i.indexrelid, {nulls}
"""
_NEEDED = {"append": ("INSERT",), "upsert": ("SELECT", "INSERT", "UPDATE")}


def query(link: connection, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with link.cursor() as cursor:
        cursor.execute(statement, tuple(values))
        return list(cursor.fetchall())


def read(link: connection, stream: str, table: Name) -> TableState:
    """The table and the stream's position now.

    Raises:
        Blocked: the position is there and cannot be read (`position-unreadable`).
    """
    found = query(link, _FIND, (table.schema, table.table))
    oid, kind, unlogged = found[0] if found else (None, "", False)
    raw, kept = None, None
    if _exists(link, table.positions):
        for text, where in query(
            link,
            f"SELECT position, table_oid FROM {table.positions.quoted} WHERE stream = %s AND table_name = %s",  # noqa: S608  # all quoted
            (stream, table.table),
        ):
            raw, kept = text, where
    now = query(link, _WHERE, (kept,)) if kept is not None and kept != oid else []
    return TableState(
        stream=stream,
        table=table,
        oid=oid,
        kind=_KINDS.get(kind),
        unlogged=unlogged,
        columns={} if oid is None else columns(link, oid),
        raw=raw,
        position=None if raw is None else position.parse(raw, stream, table.text),
        kept=kept,
        moved=Name(*now[0]) if now else None,
    )


def find(link: connection, table: Name) -> int | None:
    """The oid of a table or view; None where there is none of that name."""
    found = query(link, _FIND, (table.schema, table.table))
    return int(found[0][0]) if found else None


def others(link: connection, stream: str, table: Name) -> dict[str, Position]:
    """The positions of the other streams that land in the table."""
    if not _exists(link, table.positions):
        return {}
    rows = query(
        link,
        f"SELECT stream, position FROM {table.positions.quoted} WHERE stream <> %s AND table_name = %s",  # noqa: S608  # all quoted
        (stream, table.table),
    )
    return {name: position.parse(text, name, table.text) for name, text in rows}


def columns(link: connection, oid: int) -> dict[str, Column]:
    """Its columns, in order."""
    return {name: Column(*rest) for name, *rest in query(link, _COLUMNS, (oid,))}


def indexes(link: connection, oid: int) -> list[Index]:
    """Its unique indexes that an upsert can go by."""
    nulls = "i.indnullsnotdistinct" if link.server_version >= 150_000 else "false"  # came with 15
    return [Index(frozenset(names), equal) for names, equal in query(link, _INDEXES.format(nulls=nulls), (oid,))]


def prepare(link: connection, stream: str, table: Name, made: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Make what is missing: the schema, the table of positions, the table. True when the table was made now.

    Args:
        made: column -> type of a table that is made here.
        keys: what its rows are told apart by; empty: nothing.
    """
    release = link.server_version
    with link.cursor() as cursor:
        # Two drivers that start at once would both make them; whoever comes second finds them made.
        cursor.execute("SELECT pg_advisory_lock(hashtext('lakeward'), hashtext(%s))", (table.schema,))
        try:
            if not query(link, "SELECT FROM pg_namespace WHERE nspname = %s", (table.schema,)):
                cursor.execute(f"CREATE SCHEMA {quote(table.schema)}")
            if not _exists(link, table.positions):
                cursor.execute(
                    f"CREATE TABLE {table.positions.quoted} (stream text, table_name text, table_oid oid NOT NULL, "
                    "position text NOT NULL, landed_at timestamptz NOT NULL DEFAULT now(), "
                    "PRIMARY KEY (stream, table_name))"
                )
            if _exists(link, table):
                return False
            modern = release >= 150_000  # PostgreSQL 15
            required = {} if modern else dict.fromkeys(keys, " NOT NULL")
            parts = [f"{quote(name)} {kind}{required.get(name, '')}" for name, kind in made.items()]
            if keys:
                parts.append(f"UNIQUE {'NULLS NOT DISTINCT ' if modern else ''}({listed(keys)})")
            cursor.execute(f"CREATE TABLE {table.quoted} ({', '.join(parts)})")
            return True
        finally:
            if not link.closed:
                cursor.execute("SELECT pg_advisory_unlock(hashtext('lakeward'), hashtext(%s))", (table.schema,))


def check_rights(link: connection, stream: str, table: Name, mode: str, role: str) -> None:
    """What the role needs and does not have.

    Raises:
        SpecError: names it, with the statement that grants it.
    """
    missing: list[str] = []
    for place, needed in ((table, _NEEDED[mode]), (table.positions, ("SELECT", "INSERT", "UPDATE"))):
        lacks = [right for right in needed
                 if not query(link, "SELECT has_table_privilege(%s, %s)", (place.quoted, right))[0][0]]  # fmt: skip
        if lacks:
            missing.append(f"GRANT {', '.join(lacks)} ON {place.quoted} TO {quote(role)};")
    [(database, temporary)] = query(
        link, "SELECT current_database(), has_database_privilege(current_database(), 'TEMPORARY')"
    )
    if not temporary:
        missing.append(f"GRANT TEMPORARY ON DATABASE {quote(database)} TO {quote(role)};")
    if missing:
        raise SpecError(
            f"Role {role} lacks rights that stream {stream} needs in {table.text}", why=" ".join(missing),
            next=f"run these as the owner, then: lakeward streams start {stream}",
         code="LW-3145")  # fmt: skip


def _exists(link: connection, table: Name) -> bool:
    return bool(query(link, _FIND, (table.schema, table.table)))
