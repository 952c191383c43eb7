"""`PostgresWriter`: `TableWriter` for PostgreSQL. A batch is staged in a temporary table; one statement lands it."""

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
        rows: the number of rows that land; one per key in an upsert.
        statement: the INSERT that lands them; None if there are no rows.
    """

    attempt: str
    rows: int
    statement: str | None


@dataclass
class PostgresWriter(TableWriter[TableState, Staged]):
    """Lands one stream in one PostgreSQL table, with a connection for each batch.

    Args:
        database: the database.
        place: the table; `table` is its name for messages.
        pgpass: the password file; None: libpq's default.
        upsert: the keys and their order; None: rows are appended.
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
    def batch_connection(self) -> Iterator[connection]:
        """The connection of the running batch, or a new one; its errors are those of the stream.

        Raises:
            DependencyDown: the database does not answer.
            RetryCommit: the statement may succeed in a retry.
            SpecError: PostgreSQL refuses the statement.
        """
        import psycopg2

        if self._link is None or self._link.closed:
            self._link = link.connect(self.database, self.pgpass, self.stream)
        try:
            yield self._link
        except psycopg2.Error as error:
            if link.unavailable(error):
                self.close()
                raise link.down(self.database, error) from None
            retry_reason = link.retry_reason(error)
            if retry_reason is not None:
                raise RetryCommit(retry_reason) from error
            raise link.refused(error, self.stream, self.place, self.database.user) from None

    @contextmanager
    def open_connection(self) -> Iterator[connection]:
        """The same outside of a batch: a statement that may succeed in a retry is waited for like an outage."""
        try:
            with self.batch_connection() as opened:
                yield opened
        except RetryCommit as retry:
            raise DependencyDown(
                "PostgreSQL does not answer in time",
                why=str(retry),
                next="find the session that holds the lock in pg_locks (psql)",
                code="LW-3146",
            ) from None

    def close(self) -> None:
        """Close the connection, which drops the temporary table."""
        opened, self._link = self._link, None
        if opened is not None:
            with suppress(Exception):
                opened.close()

    def release(self) -> None:
        """Close the connection: none stays open between batches."""
        self.close()

    def load(self, session: SparkSession) -> TableState:
        """The table and the position, from the catalog of the database."""
        with self.open_connection() as opened:
            return table.read(opened, self.stream, self.place)

    def newer(self, state: TableState) -> set[str]:
        """The columns that a newer generation added to the table."""
        added = state.position.added if state.position else {}
        return {name for name, generation in added.items() if generation > self.generation}

    def check(self, state: TableState) -> BlockReason | None:
        return check_table(state)

    def stage(self, rows: DataFrame, state: TableState, attempt: str) -> Staged:
        """Copy the rows into the session's temporary table. PostgreSQL parses every value here; no reader sees a row.

        Raises:
            SpecError: a value or a column does not fit, or a key has several rows and no column orders them.
        """
        given = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        columns.compare(self.stream, self.place, given, state.columns, self.newer(state))
        names = list(given)
        folder = stage.write(rows, state.columns)
        try:
            with self.batch_connection() as opened:
                count = stage.copy(opened, folder, self.place, names, state.columns)
                order: list[str] = []
                if self.upsert is not None and count:
                    order = self.upsert.order(names)
                    if order:
                        count = stage.count_keys(opened, self.upsert.keys)
                    elif (duplicate := stage.duplicate_key(opened, self.upsert.keys)) is not None:
                        raise self.upsert.several(*duplicate)
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
        with self.batch_connection() as opened:
            published = publish.publish(opened, state, moved, staged.statement)
        if not published:
            raise RetryCommit("the position moved")
        failpoints.hit("after-publish")
        return moved
