"""Reference table in PostgreSQL: a table or view, read by one statement, that is, in one snapshot.

It is read with psycopg2 and not with Spark's JDBC source, which takes the password as an option of the plan. With
libpq, password files and TLS settings are the same as for the sink. Rows pass through Python: a reference is a small
table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.postgres import connection as postgres
from lakeward.connectors.postgres import table
from lakeward.connectors.postgres.columns import Column
from lakeward.connectors.postgres.name import Name, quote
from lakeward.connectors.reference.missing_table import missing_table
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Database
from lakeward.spec.sql.statements import quote as quote_spark

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from pyspark.sql import DataFrame, SparkSession

_TYPES = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT", "real": "FLOAT",
    "double precision": "DOUBLE", "bytea": "BINARY", "date": "DATE", "timestamp with time zone": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP_NTZ",
}  # fmt: skip
_TEXTS = ("text", "character varying", "character", "citext", "uuid", "json", "jsonb", "inet", "cidr", "name")
_NUMERIC = re.compile(r"numeric(?:\((\d+),(\d+)\))?")
_PRECISION = re.compile(r"\(\d+\)")
_ANY_NUMERIC = "DECIMAL(38,18)"  # the type that Spark's JDBC source uses


@dataclass(frozen=True)
class PostgresReference:
    """A table or view of the database of a connection.

    Attributes:
        name: the name of the reference.
        place: the table.
        database, pgpass: the connection.
    """

    name: str
    place: Name
    database: Database
    pgpass: Path | None

    def version(self, session: SparkSession) -> str:
        with self._connect() as link:
            oid, columns = self._table(link)
            whole = f"SELECT {self._selected(columns)} FROM {self.place.quoted}"  # noqa: S608  # all quoted
            # A sum does not depend on the order of rows. PostgreSQL has no reliable change counter of a table.
            [(rows, digest)] = table.query(
                link,
                f"SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0) FROM ({whole}) r",  # noqa: S608  # all quoted
            )
        kinds = ",".join(f"{name} {column.declared}" for name, column in columns.items())
        return f"{oid}/{kinds}/{rows}/{digest}"

    def read(self, session: SparkSession, version: str) -> DataFrame:
        with self._connect() as link:
            _, columns = self._table(link)
            rows = table.query(link, f"SELECT {self._selected(columns)} FROM {self.place.quoted}")  # noqa: S608  # all quoted
        values = [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in rows]
        return session.createDataFrame(values, self._schema(columns))

    def schema(self) -> str:
        """The columns as Spark DDL; no row is read.

        Raises:
            SpecError, DependencyDown: as for `version`.
        """
        with self._connect() as link:
            return self._schema(self._table(link)[1])

    @contextmanager
    def _connect(self) -> Iterator[connection]:
        import psycopg2

        try:
            with closing(postgres.connect(self.database, self.pgpass, f"reference {self.name}")) as link:
                yield link
        except psycopg2.Error as error:
            if postgres.unavailable(error) or postgres.retry_reason(error) is not None:
                raise postgres.down(self.database, error) from None
            raise SpecError(
                f"Cannot read reference {self.name} from table {self.place.text}", why=postgres.message(error),
                next=f'grant role {self.database.user} the right to read it (GRANT SELECT ON {self.place.quoted} TO '
                f"{quote(self.database.user)}), or correct the view",
             code="LW-3167") from None  # fmt: skip

    def _table(self, link: connection) -> tuple[int, dict[str, Column]]:
        """The oid and the columns of the table."""
        oid = table.find(link, self.place)
        if oid is None:
            known = [Name(*row).text for row in table.query(link, _TABLES)]
            raise missing_table(self.name, self.place.text, known)
        return oid, table.columns(link, oid)

    def _schema(self, columns: dict[str, Column]) -> str:
        kinds = {name: spark_type(column) for name, column in columns.items()}
        unsupported = [f"{name} is {columns[name].declared}" for name, kind in kinds.items() if kind is None]
        if unsupported or not kinds:
            raise SpecError(
                f"Cannot read reference {self.name} from table {self.place.text}",
                why=f"Spark has no matching type: {', '.join(unsupported)}" if unsupported else "it has no columns",
                next="create a view without these columns, or with them as text (column::text), and name the view",
                code="LW-3166",
            )
        return ", ".join(f"{quote_spark(name)} {kind}" for name, kind in kinds.items())

    def _selected(self, columns: dict[str, Column]) -> str:
        """The columns of the SELECT; those that are STRING in Spark are cast to text."""
        return ", ".join(
            f"{quote(name)}::text" if spark_type(column) == "STRING" else quote(name)
            for name, column in columns.items()
        )


_TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_name <> 'lakeward_positions'
"""


def spark_type(column: Column) -> str | None:
    """The Spark type with the same values; None if Spark has none."""
    kind = _PRECISION.sub("", column.kind)
    if (numeric := _NUMERIC.fullmatch(column.kind)) is not None:
        if numeric[1] is None:
            return _ANY_NUMERIC
        fits = int(numeric[1]) <= 38 and int(numeric[2]) <= int(numeric[1])
        return f"DECIMAL({numeric[1]},{numeric[2]})" if fits else None
    return "STRING" if column.enum or kind in _TEXTS else _TYPES.get(kind)
