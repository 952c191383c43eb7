"""A stream's table of PostgreSQL for whoever has no Spark: reports, the audit, operations."""

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
    """The table that has a stream's rows and, beside it, the position. Each call has a connection of its own."""

    stream: str
    table: Name
    database: Database
    pgpass: Path | None

    @property
    def name(self) -> str:  # type: ignore[override]  # the ABC declares it as a plain attribute
        return self.table.text

    def state(self) -> TableState:
        """As `table.read`.

        Raises:
            DependencyDown: the database does not answer.
            SpecError: it refuses.
        """
        with self._asking() as held:
            return table.read(held, self.stream, self.table)

    def read(self) -> StoredPosition:
        state = self.state()
        return StoredPosition(state.raw, state.position, check_table(state), state)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """One statement on the table of positions, which compares the id of the table too."""
        with self._asking() as held:
            if not publish.publish(held, expected.state, moved, None):
                raise moved_meanwhile(self.stream, f"in {self.name} it is not what was read; nothing was changed")
        return moved

    def scan(self) -> Scan:
        return self._rows

    def _rows(self, topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        with self._asking() as held:
            yield from audit.scan(held, self.table)(topics, stream)

    @contextmanager
    def _asking(self) -> Iterator[connection]:
        with closing(link.connect(self.database, self.pgpass, f"about {self.stream}")) as held:
            try:
                yield held
            except psycopg2.Error as error:
                if link.away(error) or link.again(error):
                    raise link.down(self.database, error) from None
                raise link.refused(error, self.stream, self.table, self.database.user) from None


def of(runtime: Runtime, spec: StreamSpec) -> PostgresPositionStore:
    """The store of a stream whose sink is PostgreSQL.

    Raises:
        SpecError: this deployment does not know its connection.
    """
    sink = expect(spec.sink.postgres, "a sink `postgres`")
    database = link.find(str(sink.connection), runtime.postgres)
    return PostgresPositionStore(str(spec.id), Name.of(str(sink.table)), database, runtime.pgpass)
