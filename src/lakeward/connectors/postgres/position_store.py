"""A stream's table of PostgreSQL for whoever has no Spark: reports, the audit, operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres import audit, publish, table
from lakeward.connectors.postgres import connection as link
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import Fenced, expect
from lakeward.platform.runtime import Database, Runtime
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg2.extensions import connection


@dataclass(frozen=True)
class Keeper:
    """The table that keeps a stream's rows and, beside it, the position. Each question has a connection of its own."""

    stream: str
    table: Name
    database: Database
    pgpass: Path | None

    def state(self) -> TableState:
        """As `table.read`.

        Raises:
            DependencyDown: the database does not answer.
            SpecError: it refuses.
        """
        with self._asking() as held:
            return table.read(held, self.stream, self.table)

    def write(self, moved: Position, state: TableState) -> Position:
        """Move the position without any row: the primitive of recover, reset and skip-batch.

        Raises:
            Fenced: it is not what `state` says any more; nothing was changed.
        """
        with self._asking() as held:
            if not publish.publish(held, state, moved, None):
                raise Fenced(
                    f"The position of stream {self.stream} moved meanwhile",
                    why=f"in {self.table.text} it is not what was read; nothing was changed",
                    next=f"lakeward streams status {self.stream}",
                )
        return moved

    def scan(self, topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        """As `audit.scan`."""
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


def of(runtime: Runtime, spec: StreamSpec) -> Keeper:
    """The keeper of a stream whose sink is PostgreSQL.

    Raises:
        SpecError: this deployment does not know its connection.
    """
    sink = expect(spec.sink.postgres, "a sink `postgres`")
    database = link.find(str(sink.connection), runtime.postgres)
    return Keeper(str(spec.id), Name.of(str(sink.table)), database, runtime.pgpass)
