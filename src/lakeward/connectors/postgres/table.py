"""Reads and creates a PostgreSQL table and the table of positions in its schema; checks privileges.

Names in statements are quoted by `name.quote`; values are bound.
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
_NAME = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"
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
_PRIVILEGES = {"append": ("INSERT",), "upsert": ("SELECT", "INSERT", "UPDATE")}


def query(link: connection, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with link.cursor() as cursor:
        cursor.execute(statement, tuple(values))
        return list(cursor.fetchall())


def read(link: connection, stream: str, table: Name) -> TableState:
    """The table and the stream's position now.

    Raises:
        Blocked: the position cannot be parsed (`position-unreadable`).
    """
    relations = query(link, _FIND, (table.schema, table.table))
    oid, kind, unlogged = relations[0] if relations else (None, "", False)
    raw, position_oid = None, None
    if _exists(link, table.positions):
        for text, stored_oid in query(
            link,
            f"SELECT position, table_oid FROM {table.positions.quoted} WHERE stream = %s AND table_name = %s",  # noqa: S608  # all quoted
            (stream, table.table),
        ):
            raw, position_oid = text, stored_oid
    names = query(link, _NAME, (position_oid,)) if position_oid is not None and position_oid != oid else []
    return TableState(
        stream=stream,
        table=table,
        oid=oid,
        kind=_KINDS.get(kind),
        unlogged=unlogged,
        columns={} if oid is None else columns(link, oid),
        raw=raw,
        position=None if raw is None else position.parse(raw, stream, table.text, position.KeptIn.ROW),
        position_oid=position_oid,
        renamed_to=Name(*names[0]) if names else None,
    )


def find(link: connection, table: Name) -> int | None:
    """The oid of a table or view; None if it does not exist."""
    relations = query(link, _FIND, (table.schema, table.table))
    return int(relations[0][0]) if relations else None


def others(link: connection, stream: str, table: Name) -> dict[str, Position]:
    """The positions of the other streams that land in the table."""
    if not _exists(link, table.positions):
        return {}
    rows = query(
        link,
        f"SELECT stream, position FROM {table.positions.quoted} WHERE stream <> %s AND table_name = %s",  # noqa: S608  # all quoted
        (stream, table.table),
    )
    return {name: position.parse(text, name, table.text, position.KeptIn.ROW) for name, text in rows}


def columns(link: connection, oid: int) -> dict[str, Column]:
    """The columns of a table, in order."""
    return {name: Column(*rest) for name, *rest in query(link, _COLUMNS, (oid,))}


def indexes(link: connection, oid: int) -> list[Index]:
    """The unique indexes of a table that an upsert can use."""
    nulls = "i.indnullsnotdistinct" if link.server_version >= 150_000 else "false"  # new in PostgreSQL 15
    return [Index(frozenset(names), equal) for names, equal in query(link, _INDEXES.format(nulls=nulls), (oid,))]


def prepare(link: connection, stream: str, table: Name, types: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Create the schema, the table of positions and the table if missing; returns whether the table was created.

    Args:
        types: column -> type of a new table.
        keys: the unique key of a new table; empty: it has none.
    """
    release = link.server_version
    with link.cursor() as cursor:
        # The lock serializes drivers that start at once: the second one finds the tables of the first one.
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
            parts = [f"{quote(name)} {kind}{required.get(name, '')}" for name, kind in types.items()]
            if keys:
                parts.append(f"UNIQUE {'NULLS NOT DISTINCT ' if modern else ''}({listed(keys)})")
            cursor.execute(f"CREATE TABLE {table.quoted} ({', '.join(parts)})")
            return True
        finally:
            if not link.closed:
                cursor.execute("SELECT pg_advisory_unlock(hashtext('lakeward'), hashtext(%s))", (table.schema,))


def check_rights(link: connection, stream: str, table: Name, mode: str, role: str) -> None:
    """Check that the role has the privileges that the stream needs.

    Raises:
        SpecError: a privilege is missing; the error has the statement that grants it.
    """
    missing: list[str] = []
    for name, needed in ((table, _PRIVILEGES[mode]), (table.positions, ("SELECT", "INSERT", "UPDATE"))):
        granted = "SELECT has_table_privilege(format('%%I.%%I', %s::text, %s::text), %s)"
        values = (name.schema, name.table)
        lacking = [privilege for privilege in needed if not query(link, granted, (*values, privilege))[0][0]]
        if lacking:
            missing.append(f"GRANT {', '.join(lacking)} ON {name.quoted} TO {quote(role)};")
    [(database, temporary)] = query(
        link, "SELECT current_database(), has_database_privilege(current_database(), 'TEMPORARY')"
    )
    if not temporary:
        missing.append(f"GRANT TEMPORARY ON DATABASE {quote(database)} TO {quote(role)};")
    if missing:
        raise SpecError(
            f"Role {role} lacks privileges on {table.text} that stream {stream} needs",
            why=" ".join(missing),
            next=f"run these statements as the owner, then: lakeward streams start {stream}",
            code="LW-3145",
        )


def _exists(link: connection, table: Name) -> bool:
    return bool(query(link, _FIND, (table.schema, table.table)))
