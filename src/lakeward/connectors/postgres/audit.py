"""The audit's view of a table of PostgreSQL: three columns, in pieces, as one moment has them."""

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
    """Reads the identity columns of the table's rows."""
    names = IDENTITY_COLUMNS["kafka"]
    kinds = (pa.string(), pa.int32(), pa.int64())

    def read(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        if stream is not None:
            raise Internal(
                f"Rows of stream {stream} alone were asked for",
                why="only an Iceberg quarantine table names streams",
                code="LW-3129",
            )
        with link.cursor("lakeward_audit", withhold=True) as cursor:  # on the server: the table may be large
            cursor.itersize = _PIECE_ROWS
            cursor.execute(
                f"SELECT {listed(names)} FROM {table.quoted} WHERE {quote(names[0])} = ANY(%s)",  # noqa: S608  # all quoted
                (list(topics),),
            )
            while piece := cursor.fetchmany(_PIECE_ROWS):
                values = zip(*piece, strict=True)
                yield pa.record_batch(
                    [pa.array(each, kind) for each, kind in zip(values, kinds, strict=True)], list(names)
                )

    return read
