"""A reference in a table or view of PostgreSQL, read by one statement, which is one snapshot.

It is read by psycopg2 and not by Spark's JDBC source: that takes the password as an option of its plan, and libpq's
password files and TLS settings are those of the sink. Rows pass through Python; a reference is a small table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.postgres import connection as link
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
_ANY_NUMERIC = "DECIMAL(38,18)"  # as Spark's own JDBC source reads it


@dataclass(frozen=True)
class PostgresReference:
    """A table or view of the database of a connection.

    Attributes:
        name: the reference's.
        place: the table.
        database, pgpass: how it is reached.
    """

    name: str
    place: Name
    database: Database
    pgpass: Path | None

    def version(self, session: SparkSession) -> str:
        with self._ask() as held:
            oid, columns = self._table(held)
            whole = f"SELECT {self._selected(columns)} FROM {self.place.quoted}"  # noqa: S608  # all quoted
            # A sum does not depend on the order, and nothing in PostgreSQL counts the changes of a table for sure.
            [(rows, digest)] = table.query(
                held,
                f"SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0) FROM ({whole}) r",  # noqa: S608  # all quoted
            )
        kinds = ",".join(f"{name} {each.declared}" for name, each in columns.items())
        return f"{oid}/{kinds}/{rows}/{digest}"

    def read(self, session: SparkSession, version: str) -> DataFrame:
        with self._ask() as held:
            _, columns = self._table(held)
            rows = table.query(held, f"SELECT {self._selected(columns)} FROM {self.place.quoted}")  # noqa: S608  # all quoted
        values = [tuple(bytes(each) if isinstance(each, memoryview) else each for each in row) for row in rows]
        return session.createDataFrame(values, self._schema(columns))

    def schema(self) -> str:
        """Its columns as Spark DDL; nothing of its content is read.

        Raises:
            SpecError, DependencyDown: as for `version`.
        """
        with self._ask() as held:
            return self._schema(self._table(held)[1])

    @contextmanager
    def _ask(self) -> Iterator[connection]:
        import psycopg2

        try:
            with closing(link.connect(self.database, self.pgpass, f"reference {self.name}")) as held:
                yield held
        except psycopg2.Error as error:
            if link.away(error) or link.again(error) is not None:
                raise link.down(self.database, error) from None
            raise SpecError(
                f"Reference {self.name} cannot be read from table {self.place.text}", why=link.words(error),
                next=f'let role {self.database.user} read it (GRANT SELECT ON {self.place.quoted} TO '
                f"{quote(self.database.user)}), or correct the view",
             code="LW-3167") from None  # fmt: skip

    def _table(self, held: connection) -> tuple[int, dict[str, Column]]:
        """Its oid and its columns."""
        found = table.find(held, self.place)
        if found is None:
            known = [Name(*each).text for each in table.query(held, _BESIDE)]
            raise missing_table(self.name, self.place.text, known)
        return found, table.columns(held, found)

    def _schema(self, columns: dict[str, Column]) -> str:
        kinds = {name: spark_type(each) for name, each in columns.items()}
        strange = [f"{name} is {columns[name].declared}" for name, kind in kinds.items() if kind is None]
        if strange or not kinds:
            raise SpecError(
                f"Reference {self.name} cannot be read from table {self.place.text}",
                why=f"no type of Spark holds the same values: {', '.join(strange)}" if strange else "it has no columns",
                next="make a view without these columns, or with them as text (column::text), and name it instead",
                code="LW-3166",
            )
        return ", ".join(f"{quote_spark(name)} {kind}" for name, kind in kinds.items())

    def _selected(self, columns: dict[str, Column]) -> str:
        """Its columns; those that Spark has as STRING as PostgreSQL writes them."""
        return ", ".join(
            f"{quote(name)}::text" if spark_type(each) == "STRING" else quote(name) for name, each in columns.items()
        )


_BESIDE = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_name <> 'lakeward_positions'
"""


def spark_type(column: Column) -> str | None:
    """The Spark type with the same values; None where there is none."""
    kind = _PRECISION.sub("", column.kind)
    if (numeric := _NUMERIC.fullmatch(column.kind)) is not None:
        if numeric[1] is None:
            return _ANY_NUMERIC
        fits = int(numeric[1]) <= 38 and int(numeric[2]) <= int(numeric[1])
        return f"DECIMAL({numeric[1]},{numeric[2]})" if fits else None
    return "STRING" if column.enum or kind in _TEXTS else _TYPES.get(kind)
