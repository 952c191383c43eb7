"""Into a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.position import now
from lakeward.connectors.postgres import columns, evolve, table
from lakeward.connectors.postgres.check import TableState, check_table
from lakeward.connectors.postgres.writer import PostgresWriter
from lakeward.engine import schema
from lakeward.engine.sinks.evolving import GrowingLanding, empty_note
from lakeward.engine.sinks.exact import ObservedSinkTable
from lakeward.platform.errors import SpecError
from lakeward.spec.model.sinks import PostgresSink

_log = structlog.get_logger(__name__)


@dataclass
class PostgresLanding(GrowingLanding[PostgresWriter]):
    """A PostgreSQL sink."""

    sink: PostgresSink = field(kw_only=True)

    def see(self) -> ObservedSinkTable | None:
        """The table and the positions beside it.

        Raises:
            DependencyDown: the database does not answer.
            Blocked: the position is there and its table is not.
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
            return ObservedSinkTable(state, f"postgres:{self.sink.connection}:{writer.table}", others)
        finally:
            writer.close()

    def folder(self) -> None:
        """A table of PostgreSQL has none: copies of a source's log have no place beside it."""

    def without(self, other: str) -> str:
        place = self.writer.place
        row = f"stream = '{other}' AND table_name = '{place.table}'"
        return f": DELETE FROM {place.positions.quoted} WHERE {row}   (psql)"  # noqa: S608  # a person runs it

    def prepare(self, columns_: Any, *, stateful: bool) -> None:
        """Make the table, or compare its columns, its keys and our rights with what the stream needs.

        Raises:
            SpecError: something is missing; names the statement that mends it.
        """
        writer = self.writer
        writer.stateful = stateful
        stream, place = writer.stream, writer.place
        if not writer.session.sparkContext._jsc.sc().isLocal():
            raise SpecError(
                f"Stream {stream} cannot land in PostgreSQL from here", why="its driver has executors elsewhere",
                next=f"let it run in a driver of one machine (resources: in conf/streams/{stream}.yaml)",
             code="LW-2223")  # fmt: skip
        given = {each.name: each.dataType.simpleString() for each in columns_.fields}
        made = columns.column_types(stream, given)
        keys = [str(key) for key in self.sink.keys or ()]
        schema.check_keys(stream, keys, self.sink.order_by, columns_)
        try:
            with writer.open_connection() as link:
                if table.prepare(link, stream, place, made, keys):
                    _log.info("table created", stream=stream, table=place.text, connection=self.sink.connection)
                state = self._grown(link, given, made)
                if keys and state.oid is not None:
                    known = table.indexes(link, state.oid)
                    columns.check_keys(stream, place, keys, state.columns, known, link.server_version)
                table.check_rights(link, stream, place, self.mode, writer.database.user)
        finally:
            writer.close()

    def _grown(self, held: Any, given: Mapping[str, str], made: Mapping[str, str]) -> TableState:
        """The table, once it has the transform's columns.

        Args:
            given, made: column -> type, of Spark and of PostgreSQL.

        Raises:
            SpecError: it lacks some and may not be given them, or does not fit in another way.
            Fenced: somebody else landed in it since it was looked at.
            Transient: others changed it first, every time.
        """
        writer = self.writer
        stream, place = writer.stream, writer.place
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            state = table.read(held, stream, place)
            self._fits(state.kind)
            new = columns.lacking(given, state.columns) if self.additive else []
            self.unmoved(state)
            others = sorted(table.others(held, stream, place)) if new else []
            whole = {name: kind for name, kind in given.items() if name not in new or others}
            columns.compare(stream, place, whole, state.columns, writer.newer(state))
            if not new:
                at, lacks = state.position, writer.newer(state) - set(given)
                self.notes = tuple(empty_note(name, at) for name in sorted(lacks & set(state.columns)) if at)
                return state
            before = state.position
            try:
                evolve.evolve(
                    held, state, {name: made[name] for name in new}, before and self.moved(before, new, now())
                )
            except RetryCommit as redo:
                _log.info("looking at the table again", stream=stream, table=place.text, why=str(redo))
                continue
            for name in new:
                change = f"adds {name} {made[name]}"
                _log.info("table changed", stream=stream, table=place.text, change=change, generation=writer.generation)
        raise writer.contention(-1, "others moved its position or changed its columns first")

    def _fits(self, kind: str | None) -> None:
        if kind is not None:
            raise SpecError(
                f"Stream {self.writer.stream} cannot land in {self.writer.table}",
                why=f"it is {kind}: rows and position could not be committed together",
                next=f"name a table in conf/streams/{self.writer.stream}.yaml, then: lakeward deploy",
                code="LW-2224",
            )
