"""One run over the due tables: decide the range, check, judge, record, publish. Runs in the checking process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from lakeward.errors import LakewardError, Transient
from lakeward.quality import due, incident, metadata, pointer, publish, results_table, waiving
from lakeward.quality.first_bad import Failed, search
from lakeward.quality.footers import footers
from lakeward.quality.frames import rows
from lakeward.quality.lineage import History, Mark
from lakeward.quality.masking import masked
from lakeward.quality.own import Look, is_own
from lakeward.quality.own import check as check_own
from lakeward.quality.own.usual import Past
from lakeward.quality.plain import sentence
from lakeward.quality.range import Kind, Range, Read, appended, decide, reading
from lakeward.quality.records import Result, by_stream
from lakeward.quality.suites import Asked, ask
from lakeward.quality.verdict import Check, Effect, State, Verdict, verdict
from lakeward.quality.waivers import excuses, name_of, named
from lakeward.registry import batches, engine, events, verifications, waivers
from lakeward.runtime import CATALOG, Runtime
from lakeward.spec.sql import quote_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql.connect.session import SparkSession
    from sqlalchemy import Connection

    from lakeward.quality.gx import Checker
    from lakeward.spec.suite import Suite

log = structlog.get_logger(__name__)
INCREMENT = "increment"
_REACH = ("increment", "window", "table")  # each looks at all the one before it does


@dataclass
class Engines:
    """What a run needs, each made when first needed: a run with nothing to do never pays for GX or a session."""

    runtime: Runtime
    registry_url: str
    session_of: Callable[[], SparkSession]
    _stages: dict[str, set[int]] = field(default_factory=dict)

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction."""
        with engine.connect(self.registry_url, self.runtime.pgpass) as connection:
            yield connection

    @cached_property
    def lake(self) -> Catalog:
        """The catalog, as PyIceberg sees it."""
        return metadata.catalog(self.runtime)

    @cached_property
    def session(self) -> SparkSession:
        """The Spark Connect session; counts what it runs."""
        session = self.session_of()
        # A statement shorter than the interval (2 s by default) would not be told of, and not be counted.
        session.conf.set("spark.connect.progress.reportInterval", "20ms")
        handler: Any = self._progress
        session.registerProgressHandler(handler)
        return session

    @cached_property
    def checker(self) -> Checker:
        """Great Expectations, 7 CPU-seconds to import."""
        began = time.process_time()
        from lakeward.quality.gx import Checker

        made = Checker()
        log.info("Great Expectations is ready", cpu_s=round(time.process_time() - began, 1))
        return made

    @property
    def jobs(self) -> int:
        """Spark jobs run so far: stages that ran a task, for under adaptive execution each is a job of its own. Taken
        from progress reports, so a job of a few milliseconds may be missed."""
        return sum(len(each) for each in self._stages.values())

    def _progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        self._stages.setdefault(operation_id or "", set()).update(
            each.stage_id for each in stages or () if each.num_completed_tasks
        )


@dataclass(frozen=True)
class Order:
    """What to check.

    Attributes:
        suites: by table.
        tables: these, whether due or not; None for every table with a suite that is due.
        scope: instead of each check's own.
        keep: how long results stay in the lake's table; None removes nothing.
        now: when the run began, UTC; waivers and windows are judged by it.
        own_suite: False when a suite was handed in for this run: it proves nothing about the project's own, so
            `verified` stays where it is.
    """

    suites: Mapping[str, Suite]
    tables: Sequence[str] | None = None
    scope: str | None = None
    own_suite: bool = True
    keep: timedelta | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


def run(order: Order, engines: Engines) -> list[Result]:
    """Check the tables one after the other. A table that cannot be checked does not stop the others."""
    results = []
    with engines.registry() as connection:
        for each in waiving.run_out(connection):
            log.warning(each)
    for table in order.tables if order.tables is not None else sorted(order.suites):
        suite = order.suites[table]
        try:
            result = _table(table, suite, order, engines)
        except Exception as error:  # noqa: BLE001 - the boundary of one table: an engine error is a verdict, never a pass
            result = _broken(table, suite, order, engines, error)
        if result is not None:
            results.append(result)
    _into_the_lake(order, engines)
    return results


def _into_the_lake(order: Order, engines: Engines) -> None:
    """The recorded results as rows of the lake's own table. What fails stays recorded, and comes with the next run."""
    try:
        with engines.registry() as connection:
            count = results_table.publish(connection, engines.lake)
        if count and order.keep is not None:
            results_table.remove_before(engines.lake, order.now - order.keep)
    except Exception as error:  # noqa: BLE001 - a copy for queries: the verdict stands in the registry and on the branch
        said = sentence(f"{type(error).__name__}: {error}")
        log.warning(f"{results_table.TABLE} did not get the results, the next run tries again: {said}")


def _table(table: str, suite: Suite, order: Order, engines: Engines) -> Result | None:
    began, jobs, cpu = time.monotonic(), engines.jobs, time.process_time()
    with engines.registry() as connection:
        proofs = verifications.proofs(connection, table)
        newest = next(iter(verifications.newest(connection, table, limit=1)), None)
        before = verifications.checks_of(connection, newest["run"]) if newest is not None else []
        recorded = waivers.in_force(connection, table)
    excused = excuses(suite, recorded, order.now)
    waived_then = {each["check"] for each in before if (each["observed"] or {}).get("waived")}
    try:
        history = metadata.history(engines.lake, table)
    except metadata.NoTable:
        if order.tables is None and newest is None:
            log.info(f"{table}: not due: nothing has landed yet", table=table)
            return None
        raise  # asked for by name, or checked before: it is gone
    found = decide(history, [Mark(each["to_snapshot"], each["to_sequence"]) for each in proofs])
    history = _repaired(found, history, engines)
    if order.own_suite:
        pointer.bring(engines, suite, history.verified)
    if order.tables is None:
        wanted = due.decide(found, suite, newest, excused.keys(), waived_then)
        if not wanted.due:
            log.info(f"{table}: not due: {wanted.why}", table=table)
            return None
    asked = ask(suite, order.scope, excused)
    _over(table, asked, waived_then)
    blank = Result(
        run=f"{order.now:%Y%m%dT%H%M%S}-{uuid4().hex[:6]}",
        at=datetime.now(UTC),
        table=table,
        suite=suite.digest,
        scope=order.scope or INCREMENT,
        found=found,
        verdict=Verdict.PASS,
        verified=history.verified,
    )
    if found.kind is Kind.EMPTY and order.scope in (None, INCREMENT) and order.own_suite:
        log.info(f"{table}: nothing to check: {found.why}", table=table)
        standing = next(iter(proofs), None)
        skipped = tuple(each.blank(State.SKIPPED, found.why) for each in asked)
        stands = Verdict(standing["verdict"]) if standing else Verdict.PASS
        return replace(blank, verdict=stands, checks=skipped, note=found.why)
    count, why = found.rows, found.why
    if order.scope == "table" and found.head is not None:
        count, why = found.head.total, "the whole table, as asked"
    size = f"{count:,} rows" if count is not None else "all rows"
    log.info(f"{table}: {why}; {size}, {len(asked)} checks", table=table, to_snapshot=history.head)
    if order.own_suite and found.base is not None and newest is not None and newest["suite"] != suite.digest:
        log.info(
            f"{table}: the suite changed since the last run; rows up to snapshot {found.base.snapshot} were checked by "
            f"the old one: `lakeward quality run {table} --scope table` checks them all",
            table=table,
        )
    checks = masked(_checks(found, history, asked, order, engines), suite.mask)
    judged = verdict(checks)
    with engines.registry() as connection:
        landed = by_stream(batches.of_snapshots(connection, [each.id for each in found.appends]), found.appends)
    result = replace(
        blank,
        checks=tuple(checks),
        verdict=judged,
        note=_excused(checks) if judged.publishes else "",
        batches=landed,
        first_bad=_first_bad(found, asked, checks, engines) if judged is not Verdict.PASS else None,
    )
    result = _with_first_batches(result, engines)
    result = replace(
        result,
        spark_jobs=engines.jobs - jobs,
        duration_s=time.monotonic() - began,
        cpu_s=time.process_time() - cpu,
    )
    return _published(result, order, engines)


def _repaired(found: Range, history: History, engines: Engines) -> History:
    """The branch brought in line with the results, before anything is checked."""
    planned = publish.settle(history, found.base)
    if planned.to is None:
        return history
    base = found.base
    done, stands = publish.move(engines.session, engines.lake, found.table, lambda now: publish.settle(now, base))
    log.warning(f"{found.table}: verified {done.why}", table=found.table, verified_snapshot=stands)
    with engines.registry() as connection:
        events.record(connection, "table", found.table, "verified_repaired", f"verified {done.why}")
    return replace(history, verified=stands)


def _checks(found: Range, history: History, asked: Sequence[Asked], order: Order, engines: Engines) -> list[Check]:
    """Every check's result; checks that read the same rows share one frame."""
    results: dict[str, Check] = {}
    groups: dict[Read, list[Asked]] = {}
    for each in asked:
        read = reading(found, history, each.scope, order.now)
        if read is None:
            results[each.id] = each.blank(State.SKIPPED, "no new rows in the range")
        else:
            groups.setdefault(read, []).append(each)
    for read, group in groups.items():
        own = [each for each in group if is_own(each)]
        results |= {each.id: check_own(each, _look(found, history, read, engines)) for each in own}
        theirs = [each for each in group if not is_own(each)]
        if theirs:
            frame = rows(engines.session, found.table, read)
            stated = footers(engines.lake.load_table(found.table), read, appended(history, read))
            results |= {check.id: check for check in engines.checker.check(frame, theirs, stated)}
    return [results[each.id] for each in asked]


def _look(found: Range, history: History, read: Read, engines: Engines) -> Look:
    """What a check of our own may look at; nothing of it is opened before it asks."""

    def past(check: str) -> list[Past]:
        with engines.registry() as connection:
            return [Past(at, value) for at, value in verifications.values(connection, found.table, check)]

    return Look(
        found=found,
        history=history,
        frame=lambda: rows(engines.session, found.table, read),
        table=lambda name: engines.session.read.table(quote_table(name, CATALOG)),
        past=past,
    )


def _first_bad(found: Range, asked: Sequence[Asked], checks: Sequence[Check], engines: Engines) -> int | None:
    by_id = {each.id: each for each in asked}
    about = [
        by_id[check.id]
        for check in checks
        if check.state is State.FAIL
        and check.scope == INCREMENT
        and not is_own(by_id[check.id])
        and engines.checker.by_row(by_id[check.id])
    ]
    failed = Failed(
        strict=tuple(each.id for each in about if each.strict),
        tolerant=tuple(each.id for each in about if not each.strict),
    )

    def probe(read: Read, ids: Sequence[str]) -> bool | None:
        return engines.checker.fails(rows(engines.session, found.table, read), [by_id[each] for each in ids])

    return search(found, failed, probe)


def _with_first_batches(result: Result, engines: Engines) -> Result:
    if result.first_bad is None:
        return result
    snapshot = next(each for each in result.found.snapshots if each.id == result.first_bad)
    with engines.registry() as connection:
        found = batches.of_snapshots(connection, [snapshot.id])
    return replace(result, first_bad_batches=by_stream(found, [snapshot]))


def _published(result: Result, order: Order, engines: Engines) -> Result:
    """Keep the result, then move the branch: a proof without a branch is repaired, a branch without a proof is not."""
    head = result.found.head
    moves = head is not None and result.verdict.publishes
    reason = _proves_nothing(order, order.suites[result.table])
    if moves and reason:
        log.info(f"{result.table}: verified stays at snapshot {result.verified}: {reason}", table=result.table)
        result, moves = (
            replace(result, note="; ".join(filter(None, [f"verified did not move: {reason}", result.note]))),
            False,
        )
    if moves and head is not None:
        result = replace(result, verified=head.id)
    with engines.registry() as connection:
        verifications.record(connection, result.row(), result.check_rows())
        waiving.judged(connection, result.table, result.checks)
        if order.own_suite:
            incident.after_run(connection, result)
    if not moves or head is None:
        return result
    checked = head.id
    done, stands = publish.move(engines.session, engines.lake, result.table, lambda now: publish.advance(now, checked))
    log.info(f"{result.table}: verified is at snapshot {stands} ({done.why})", table=result.table)
    pointer.bring(engines, order.suites[result.table], stands)
    return replace(result, verified=stands)


def _excused(checks: Sequence[Check]) -> str:
    """What a waiver lets through, as a sentence for the result; empty when nothing."""
    told = [
        f"{named(check.expectation, check.kwargs)} failed and does not hold: {check.excuse.text}"
        for check in checks
        if check.state in (State.FAIL, State.ERROR) and check.excuse is not None and check.own_effect is Effect.HOLD
    ]
    return "; ".join(told)


def _over(table: str, asked: Sequence[Asked], waived_then: Set[str]) -> None:
    """Say which failures count again."""
    for each in asked:
        if each.id in waived_then and each.excuse is None:
            name = name_of(each.expectation)
            log.warning(f"{table}: the waiver of check {name} is over: a failure counts again", check=each.id)


def _proves_nothing(order: Order, suite: Suite) -> str | None:
    """Why a passed run is no proof of the project's suite, as a clause; None when it is one."""
    if not order.own_suite:
        return "the suite was handed in for this run only"
    if order.scope is not None:
        narrowed = sum(_REACH.index(each.scope) > _REACH.index(order.scope) for each in suite.expectations)
        if narrowed:
            return f"{narrowed} checks of the suite look at more than --scope {order.scope}"
    return None


def _broken(table: str, suite: Suite, order: Order, engines: Engines, error: Exception) -> Result:
    """The table could not be checked: recorded as an error where the registry can be reached, told in any case."""
    said = f"{error.what}: {error.why}" if isinstance(error, LakewardError) else f"{type(error).__name__}: {error}"
    text = sentence(said)
    nothing = Range(table, Kind.EMPTY, None, None, (), text)
    result = Result(
        run=f"{order.now:%Y%m%dT%H%M%S}-{uuid4().hex[:6]}",
        at=datetime.now(UTC),
        table=table,
        suite=suite.digest,
        scope=order.scope or INCREMENT,
        found=nothing,
        verdict=Verdict.ERROR,
        note=text,
    )
    log.error(f"{table}: could not be checked: {text}", table=table, kind=type(error).__name__)
    with engines.registry() as connection:
        verifications.record(connection, result.row(), [])
        if order.own_suite and not isinstance(error, Transient):  # what does not answer is an incident of its own
            incident.after_run(connection, result)
    return result
