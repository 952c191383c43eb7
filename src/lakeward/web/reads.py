"""The readings behind the routes: cached, and only what a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from functools import cached_property

from lakeward.operations.request import Plan, Request
from lakeward.operations.runner import Runner
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.settings import Settings
from lakeward.supervision import report
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.context import backend_of
from lakeward.supervision.observe import Connect, Facts
from lakeward.supervision.reconcile import registry_of
from lakeward.supervision.report.block import block
from lakeward.supervision.report.material import Explain, observe_all
from lakeward.tables.documents import Pin
from lakeward.web import actions, audit, quality, streams, tables
from lakeward.web.body import Bodies
from lakeward.web.cached import Cache, Reading
from lakeward.web.errors import NotFound

FRESH_S = 3.0
"""A page asks every five seconds; all pages together cost one reading in this time."""
OF_ALL = "tables_observe"
"""The Dag that a user must be allowed to read to see what belongs to no stream."""

MayRead = Callable[[Iterable[str]], Set[str]]
"""Which of these Dags the caller may read."""


class Sight:
    """What a caller may see. Asked once for all streams: with teams, each question is one to Airflow's database.

    Args:
        groups: streams by what they write to.
    """

    def __init__(self, may_read: MayRead, groups: Iterable[Iterable[str]]) -> None:
        dag_ids = {streams.DAG + stream for group in groups for stream in group}
        self._dags = may_read([*sorted(dag_ids), OF_ALL])

    def of(self, stream: str) -> bool:
        """Whether they may see a stream."""
        return streams.DAG + stream in self._dags

    def any_of(self, writers: Collection[str]) -> bool:
        """Whether they may see what these streams write to; what no stream writes to belongs to `OF_ALL`."""
        return any(map(self.of, writers)) if writers else OF_ALL in self._dags


class Reads:
    """Everything that the API answers with.

    Args:
        addresses: the deployment's addresses. Read once: a change needs a restart of the process.
        explain: adds the cause of missing supervision.
    """

    def __init__(
        self,
        addresses: Callable[[], Runtime],
        settings: Callable[[], Settings] = Settings,
        explain: Explain | None = None,
    ) -> None:
        self._addresses, self._settings, self._explain = addresses, settings, explain
        self._streams_cache: Cache[streams.Streams] = Cache(FRESH_S)
        self._details_cache: Cache[streams.StreamDetail] = Cache(FRESH_S)
        self._tables_cache: Cache[tables.Tables] = Cache(FRESH_S)
        self._checks_cache: Cache[quality.Quality] = Cache(FRESH_S)
        self._bodies = Bodies()
        self._before: Facts | None = None

    @cached_property
    def runtime(self) -> Runtime:
        return self._addresses()

    @cached_property
    def connect(self) -> Connect:
        return registry_of(self.runtime)

    @cached_property
    def backend(self) -> Backend:
        return backend_of(self.runtime)

    def all_streams(self, may_read: MayRead, *, packed: bool = False) -> bytes:
        """All streams that the caller may see, as the body of `streams.Streams`; `packed`: in gzip's format."""
        found = self._streams_reading()
        seen = frozenset(may_read([*(row["dag_id"] for row in found.value["streams"]), OF_ALL]))
        everything = OF_ALL in seen
        body = self._bodies.of(found.value, seen, lambda: streams.visible(found.value, seen, everything=everything))
        return (body.packed if packed else body.with_age)(found.age_s, found.stale)

    def one_stream(self, stream: str, may_read: MayRead) -> Reading[streams.StreamDetail]:
        """One stream.

        Raises:
            NotFound: there is no such stream, or the caller may not see it.
        """
        self._check(stream, may_read)
        return self._details_cache.get(stream, lambda: self._detail(stream))

    def batches_of(self, stream: str, limit: int, may_read: MayRead) -> streams.Batches:
        """The newest batches of a stream.

        Raises:
            NotFound: there is no such stream, or the caller may not see it.
        """
        self._check(stream, may_read)
        return streams.newest_batches(self.connect, stream, limit)

    def lag_of(self, stream: str, hours: int, may_read: MayRead) -> streams.LagHistory:
        """Lag and state of a stream over the last hours.

        Raises:
            NotFound: it does not exist, or the caller may not see it.
        """
        self._check(stream, may_read)
        return streams.lag_over_time(self.connect, stream, hours)

    def all_tables(self, may_read: MayRead) -> tables.Tables:
        """All tables that the caller may see."""
        found, writers = self._tables_reading(), self._writers()
        sight = Sight(may_read, [*writers.values(), *map(_pinning, found.value["tables"])])
        rows = [_seen(row, writers, sight) for row in found.value["tables"] if sight.any_of(writers[row["table"]])]
        return {**found.value, "tables": rows, "age_s": found.age_s, "stale": found.stale}

    def one_table(self, table: str, may_read: MayRead) -> tables.TableDetail:
        """One table.

        Raises:
            NotFound: it is not registered, or the caller may not see it.
        """
        row = self._visible_table(table, may_read)
        with self.connect() as connection:
            return tables.detail(connection, row)

    def all_checks(self, may_read: MayRead) -> quality.Quality:
        """The checks of all tables that the caller may see."""
        found, writers = self._checks_cache.get("", self._read_quality), self._writers()
        sight = Sight(may_read, writers.values())
        rows = [row for row in found.value["tables"] if sight.any_of(writers.get(row["table"], ()))]
        return {**found.value, "tables": rows, "age_s": found.age_s, "stale": found.stale}

    def checks_of(self, table: str, may_read: MayRead) -> quality.QualityDetail:
        """The checks of one table.

        Raises:
            NotFound: it has no check run, or the caller may not see it.
        """
        self._visible_table(table, may_read)
        with self.connect() as connection:
            found = quality.detail(connection, table)
        return quality.visible(found, Sight(may_read, [quality.streams_of(found)]).of)

    def audit_log(self, limit: int, may_read: MayRead) -> audit.Audit:
        """The newest changes that the caller may see."""
        with self.connect() as connection:
            found = audit.read(connection, limit)
        writers = self._writers()
        streams_of = [_streams_of(row, writers) for row in found["changes"]]
        sight = Sight(may_read, streams_of)
        rows = [row for row, about in zip(found["changes"], streams_of, strict=True) if sight.any_of(about)]
        return {**found, "changes": rows}

    def plan(self, request: Request, author: str) -> tuple[Plan, bool]:
        """What an operation would do, and whether it needs an approval; changes nothing.

        Raises:
            SpecError: the stream does not exist, or the request is not valid.
            Refused: the operation is not possible in the current state.
        """
        runner = Runner(self.connect, self.runtime, author=author, holder="the page", settings=self._settings)
        operation = runner.of(request)
        return runner.plan(operation), operation.needs_approval

    def _detail(self, stream: str) -> streams.StreamDetail:
        view, document = report.read(self.connect, self.runtime, stream, self.backend, self._explain)
        return {
            "document": document,
            "block": block(document),
            "actions": actions.offered(document),
            "generations": streams.generations_of(self.connect, view.facts.by_id[stream]),
        }

    def _check(self, stream: str, may_read: MayRead) -> None:
        known = (row["id"] for row in self._streams_reading().value["streams"])
        if stream in known and may_read([streams.DAG + stream]):
            return
        raise NotFound(f"There is no stream {stream!r}", next="lakeward streams list", code="LW-5902")

    def _visible_table(self, table: str, may_read: MayRead) -> tables.TableRow:
        rows, writers = self._tables_reading().value["tables"], self._writers()
        row = next((row for row in rows if row["table"] == table), None)
        sight = Sight(may_read, [writers.get(table, ()), () if row is None else _pinning(row)])
        if row is None or not sight.any_of(writers[table]):
            raise NotFound(
                f"There is no registered table {table!r}",
                why="a table appears after the first observation: those of streams, and those of conf/tables.yaml",
                next="lakeward tables health",
                code="LW-5903",
            )
        return _seen(row, writers, sight)

    def _streams_reading(self) -> Reading[streams.Streams]:
        return self._streams_cache.get("", self._read_streams)

    def _read_streams(self) -> streams.Streams:
        view = observe_all(self.connect, self.backend, self._explain, self._before)
        self._before = view.facts
        return streams.of_view(view)

    def _tables_reading(self) -> Reading[tables.Tables]:
        return self._tables_cache.get("", self._read_tables)

    def _read_tables(self) -> tables.Tables:
        with self.connect() as connection:
            return tables.read(connection)

    def _read_quality(self) -> quality.Quality:
        with self.connect() as connection:
            return quality.read(connection)

    def _writers(self) -> dict[str, tuple[str, ...]]:
        """Table -> the streams that write to it, by their specs and by the positions in it."""
        found = {row["table"]: list(row["streams"]) for row in self._tables_reading().value["tables"]}
        for stream in self._streams_reading().value["streams"]:
            for table in stream["tables"]:
                if stream["id"] not in found.setdefault(table, []):
                    found[table].append(stream["id"])
        return {table: tuple(streams) for table, streams in found.items()}


def _streams_of(change: audit.ChangeRow, writers: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return (change["name"],) if change["scope"] == "stream" else writers.get(change["name"], ())


def _pinning(row: tables.TableRow) -> list[str]:
    return [pin["stream"] for pin in row["pins"] if pin["stream"] is not None]


def _seen(row: tables.TableRow, writers: dict[str, tuple[str, ...]], sight: Sight) -> tables.TableRow:
    """A table with those of its streams that the caller may see; a pin by another one names no stream."""
    return {
        **row,
        "streams": [stream for stream in writers[row["table"]] if sight.of(stream)],
        "pins": [pin if pin["stream"] is None or sight.of(pin["stream"]) else _hidden(pin) for pin in row["pins"]],
    }


def _hidden(pin: Pin) -> Pin:
    return {
        **pin, "who": "another stream", "stream": None, "why": "you may not see it",
        "next": "those who may see that stream know",
    }  # fmt: skip
