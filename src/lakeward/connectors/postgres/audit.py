"""Reads the identity columns of a PostgreSQL table for the audit, in pieces, from one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.postgres.name import Name, listed, quote
from lakeward.platform.errors import Internal
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from psycopg2.extensions import connection

_PIECE_ROWS = 50_000


def scan(link: connection, table: Name) -> Scan:
    """A function that reads the identity columns of the table's rows."""
    names = IDENTITY_COLUMNS["kafka"]
    kinds = (pa.string(), pa.int32(), pa.int64())

    def read(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        if stream is not None:
            raise Internal(
                f"The rows of stream {stream} alone cannot be read from a PostgreSQL table",
                why="only the rows of an Iceberg quarantine table name their stream",
                code="LW-3129",
            )
        with link.cursor("lakeward_audit", withhold=True) as cursor:  # a server-side cursor: the table may be large
            cursor.itersize = _PIECE_ROWS
            cursor.execute(
                f"SELECT {listed(names)} FROM {table.quoted} WHERE {quote(names[0])} = ANY(%s)",  # noqa: S608  # all quoted
                (list(topics),),
            )
            while piece := cursor.fetchmany(_PIECE_ROWS):
                values = zip(*piece, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
                yield pa.record_batch(arrays, list(names))

    return read
