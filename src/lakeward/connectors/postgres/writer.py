"""`PostgresWriter`: `TableWriter` for PostgreSQL. A batch waits in a temporary table; one statement lands it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import Build, RetryCommit
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.commit_protocol.writer import TableWriter
from lakeward.connectors.postgres import columns, publish, stage, table
from lakeward.connectors.postgres import connection as link
from lakeward.connectors.postgres.check import TableState, check_table
from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Database
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Staged:
    """Rows in the session's temporary table.

    Attributes:
        attempt: `<stream>/<seq>/<nonce>`.
        rows: how many land: of an upsert, one a key.
        statement: the INSERT that lands them; None where there are none.
    """

    attempt: str
    rows: int
    statement: str | None


@dataclass
class PostgresWriter(TableWriter[TableState, Staged]):
    """Lands one stream in one table of PostgreSQL, by a connection for each batch.

    Args:
        database: where.
        place: the table; `table` is its name in words.
        pgpass: the password file; None: libpq's own.
        upsert: how rows of one key are told apart; None: rows are added.
    """

    database: Database = field(kw_only=True)
    place: Name = field(kw_only=True)
    pgpass: Path | None = None
    upsert: ByKey | None = None
    _link: connection | None = field(default=None, init=False, repr=False)

    @property
    def mode(self) -> str:
        return "append" if self.upsert is None else "upsert"

    @property
    def history(self) -> str:
        return "by SELECT * FROM pg_stat_activity, and for locks in pg_locks (psql)"

    @contextmanager
    def asking(self) -> Iterator[connection]:
        """The connection of the batch that runs, or a new one; errors are the stream's.

        Raises:
            DependencyDown: the database is away.
            RetryCommit: the same may succeed when it is tried again.
            SpecError: PostgreSQL refuses it.
        """
        import psycopg2

        if self._link is None or self._link.closed:
            self._link = link.connect(self.database, self.pgpass, self.stream)
        try:
            yield self._link
        except psycopg2.Error as error:
            if link.away(error):
                self.close()
                raise link.down(self.database, error) from None
            again = link.again(error)
            if again is not None:
                raise RetryCommit(again) from error
            raise link.refused(error, self.stream, self.place, self.database.user) from None

    @contextmanager
    def ask(self) -> Iterator[connection]:
        """The same outside of a batch: what may succeed when it is tried again is waited for like an outage."""
        try:
            with self.asking() as held:
                yield held
        except RetryCommit as redo:
            raise DependencyDown(
                "PostgreSQL does not answer",
                why=str(redo),
                next="look for what holds it up in pg_locks (psql)",
                code="LW-3146",
            ) from None

    def close(self) -> None:
        """End the connection, and with it the temporary table."""
        held, self._link = self._link, None
        if held is not None:
            with suppress(Exception):
                held.close()

    def release(self) -> None:
        """No connection is held between batches."""
        self.close()

    def load(self, session: SparkSession) -> TableState:
        """The table and the position, from the catalog of the database."""
        with self.ask() as held:
            return table.read(held, self.stream, self.place)

    def newer(self, state: TableState) -> set[str]:
        """The columns that a generation after this one added to the table."""
        added = state.position.added if state.position else {}
        return {name for name, generation in added.items() if generation > self.generation}

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> Staged:
        """Take the rows into the session's temporary table: every value is read by PostgreSQL here, none is visible.

        Raises:
            SpecError: a value or a column does not fit, or a key has several rows and nothing says which is newer.
        """
        given = {each.name: each.dataType.simpleString() for each in rows.schema.fields}
        columns.compare(self.stream, self.place, given, state.columns, self.newer(state))
        names = list(given)
        folder = stage.write(rows, state.columns)
        try:
            with self.asking() as held:
                count = stage.copy(held, folder, self.place, names, state.columns)
                order: list[str] = []
                if self.upsert is not None and count:
                    order = self.upsert.order(names)
                    if order:
                        count = stage.distinct(held, self.upsert.keys)
                    elif (found := stage.twice(held, self.upsert.keys)) is not None:
                        raise self.upsert.several(*found)
        finally:
            stage.remove(folder)
        keys = [] if self.upsert is None else list(self.upsert.keys)
        source = stage.source(names, keys, order)
        order_by = None if self.upsert is None else self.upsert.order_by
        statement = publish.insert(self.place, names, source, keys, order_by) if count else None
        return Staged(attempt, count, statement)

    def publish(self, state: TableState, staged: Staged, batch: RunningBatch, build: Build) -> Position:
        """One statement moves the position and inserts the rows.

        Raises:
            RetryCommit: the position moved.
            DependencyDown: the connection was lost, with the temporary table or with the answer.
        """
        moved = build(None, 0)
        failpoints.hit("before-publish")
        with self.asking() as held:
            done = publish.publish(held, state, moved, staged.statement)
        if not done:
            raise RetryCommit("the position moved")
        failpoints.hit("after-publish")
        return moved
