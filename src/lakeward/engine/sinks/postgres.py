"""The PostgreSQL sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.postgres import columns, connection, evolve, table
from lakeward.connectors.postgres.check import TableState, check_table
from lakeward.connectors.postgres.name import Name
from lakeward.connectors.postgres.writer import PostgresWriter
from lakeward.engine import schema
from lakeward.engine.sinks import evolution
from lakeward.engine.sinks.base import SinkContext
from lakeward.engine.sinks.evolution import ColumnFit, MovedPosition, SchemaChange, empty_note
from lakeward.engine.sinks.exact import ExactSink, ObservedSinkTable
from lakeward.platform.errors import SpecError, expect
from lakeward.spec.model.sinks import PostgresSink

_log = structlog.get_logger(__name__)


@dataclass
class PostgresStreamSink(ExactSink[PostgresWriter]):
    """A table of PostgreSQL."""

    sink: PostgresSink = field(kw_only=True)
    additive: bool = field(kw_only=True)

    @classmethod
    def of(cls, context: SinkContext) -> PostgresStreamSink:
        """Make the sink of a spec.

        Raises:
            SpecError: its connection is unknown.
        """
        sink, runtime = expect(context.spec.sink.postgres, "`sink.postgres`"), context.runtime
        place = Name.of(str(sink.table))
        writer = context.writer(
            PostgresWriter,
            place.text,
            database=connection.find(str(sink.connection), runtime.postgres),
            place=place,
            pgpass=runtime.pgpass,
            upsert=None if sink.keys is None else ByKey(sink.keys, sink.order_by),
        )
        return cls(writer, sink=sink, additive=context.additive)

    @property
    def one_pass(self) -> bool:
        """Of an append, COPY returns the number of rows that are in the temporary table."""
        return self.writer.upsert is None

    def observe_table(self) -> ObservedSinkTable | None:
        """Read the table, and the positions in the table beside it.

        Raises:
            DependencyDown: the database does not answer.
            Blocked: there is a position, but its table is missing.
        """
        writer = self.writer
        try:
            state = writer.load(writer.session)
            if state.oid is None:
                halt = check_table(state)
                if halt is not None and state.raw is not None:
                    raise halt.error()
                return None
            with writer.open_connection() as link:
                others = table.others(link, writer.stream, writer.place) if state.raw is None else {}
            return ObservedSinkTable(state, others=others)
        finally:
            writer.close()

    def location(self) -> None:
        """None: a table of PostgreSQL has no folder in which copies of a source's log could be stored."""

    def remove_position_hint(self, other: str) -> str:
        place = self.writer.place
        row = f"stream = '{other}' AND table_name = '{place.table}'"
        return f": DELETE FROM {place.positions.quoted} WHERE {row}   (psql)"  # noqa: S608  # a person runs it

    def prepare(self, columns_: Any, *, stateful: bool) -> None:
        """Create the table, or compare its columns, keys and privileges with what the stream needs.

        Raises:
            SpecError: something is missing; names the statement that adds it.
            Fenced: another writer moved the position since it was observed.
            Transient: other writers changed the table during every attempt.
        """
        writer = self.writer
        writer.stateful = stateful
        stream, place = writer.stream, writer.place
        if not writer.session.sparkContext._jsc.sc().isLocal():
            raise SpecError(
                f"Stream {stream} cannot land in PostgreSQL from this driver",
                why="the driver has executors on other machines",
                next=f"run it in a driver of one machine (resources: in conf/streams/{stream}.yaml)",
                code="LW-2223",
            )
        given = {column.name: column.dataType.simpleString() for column in columns_.fields}
        made = columns.column_types(stream, given)
        keys = [str(key) for key in self.sink.keys or ()]
        schema.check_keys(stream, keys, self.sink.order_by, columns_)
        try:
            with writer.open_connection() as link:
                if table.prepare(link, stream, place, made, keys):
                    _log.info("table created", stream=stream, table=place.text, connection=self.sink.connection)
                state = self._evolved(link, given, made)
                if keys and state.oid is not None:
                    known = table.indexes(link, state.oid)
                    columns.check_keys(stream, place, keys, state.columns, known, link.server_version)
                table.check_rights(link, stream, place, writer.mode, writer.database.user)
        finally:
            writer.close()

    def _evolved(self, link: Any, given: Mapping[str, str], made: Mapping[str, str]) -> TableState:
        """The table, with the transform's columns.

        Args:
            given, made: column -> type, of Spark and of PostgreSQL.
        """
        writer = self.writer
        stream, place = writer.stream, writer.place

        def read() -> TableState:
            state = table.read(link, stream, place)
            self._check_kind(state.kind)
            return state

        def compare(state: TableState) -> SchemaChange:
            lacks = columns.lacking(given, state.columns)
            new = lacks if self.additive else []
            others = sorted(table.others(link, stream, place)) if lacks else []
            compared = {name: kind for name, kind in given.items() if name not in new or others}
            newer, at = writer.newer(state), state.position
            columns.compare(stream, place, compared, state.columns, newer, others)
            empty = sorted((newer - set(given)) & set(state.columns))

            def apply(moved: MovedPosition) -> None:
                evolve.evolve(link, state, {name: made[name] for name in new}, moved(None))

            notes = tuple(empty_note(name, at) for name in empty if at)
            return SchemaChange(new, [f"adds {name} {made[name]}" for name in new], apply, notes)

        state, fits = evolution.evolve(writer, self.observed_raw, read, compare)
        self.fit = ColumnFit(notes=fits.notes)
        return state

    def _check_kind(self, kind: str | None) -> None:
        if kind is not None:
            raise SpecError(
                f"Stream {self.writer.stream} cannot land in {self.writer.table}: it is not a table",
                why=f"it is {kind}: rows and position could not be committed together",
                next=f"name a table in conf/streams/{self.writer.stream}.yaml, then: lakeward deploy",
                code="LW-2224",
            )
