"""The position of a stream in PostgreSQL, and its rows for the audit; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.position_store import PositionStore, StoredPosition, moved_meanwhile
from lakeward.connectors.postgres import audit, publish, table
from lakeward.connectors.postgres import connection as link
from lakeward.connectors.postgres.check import TableState, check_table
from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import expect
from lakeward.platform.runtime import Database, Runtime
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg2.extensions import connection


@dataclass(frozen=True)
class PostgresPositionStore(PositionStore):
    """The position of one stream in the table of positions beside its table. Each call opens its own connection."""

    stream: str
    table: Name
    database: Database
    pgpass: Path | None

    @property
    def name(self) -> str:  # type: ignore[override]  # the ABC declares it as a plain attribute
        return self.table.text

    def state(self) -> TableState:
        """Read the table and the position; see `table.read`.

        Raises:
            DependencyDown: the database does not answer.
            SpecError: the database refuses a statement.
        """
        with self._connection() as opened:
            return table.read(opened, self.stream, self.table)

    def read(self) -> StoredPosition:
        state = self.state()
        return StoredPosition(state.raw, state.position, check_table(state), state)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """Update the table of positions by one statement."""
        with self._connection() as opened:
            if not publish.publish(opened, expected.state, moved, None):
                raise moved_meanwhile(self.stream, f"the position in {self.name} is not the one that was read")
        return moved

    def scan(self) -> Scan:
        return self._rows

    def _rows(self, topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        with self._connection() as opened:
            yield from audit.scan(opened, self.table)(topics, stream)

    @contextmanager
    def _connection(self) -> Iterator[connection]:
        """A connection whose errors are those of the stream."""
        with closing(link.connect(self.database, self.pgpass, f"about {self.stream}")) as opened:
            try:
                yield opened
            except psycopg2.Error as error:
                if link.unavailable(error) or link.retry_reason(error):
                    raise link.down(self.database, error) from None
                raise link.refused(error, self.stream, self.table, self.database.user) from None


def of(runtime: Runtime, spec: StreamSpec) -> PostgresPositionStore:
    """The position store of a stream whose sink is PostgreSQL.

    Raises:
        SpecError: its connection does not exist in this deployment.
    """
    sink = expect(spec.sink.postgres, "a sink `postgres`")
    database = link.find(str(sink.connection), runtime.postgres)
    return PostgresPositionStore(str(spec.id), Name.of(str(sink.table)), database, runtime.pgpass)
