"""Runs every check of one table on the rows it reads, and finds the first bad snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from lakeward.quality.arguments import patterns
from lakeward.quality.engine.bridge.passes import no_server
from lakeward.quality.engine.custom import CheckContext, is_own
from lakeward.quality.engine.custom import check as check_own
from lakeward.quality.engine.custom.landed import Landings
from lakeward.quality.engine.custom.outlier import Past
from lakeward.quality.engine.rescue import Attempt, rescued
from lakeward.quality.engine.timeouts import PATIENCE_S, PLANNING_S, patient
from lakeward.quality.ranges.batches import batches_of
from lakeward.quality.ranges.first_bad import ALONE, Failed, OldestFailingRow, remembered, search
from lakeward.quality.ranges.frames import NO_SEQUENCE, SEQUENCE_SQL
from lakeward.quality.ranges.range import Kind, Range, Read, appended, reading
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.results.json_values import sentence
from lakeward.quality.results.records import Result, by_stream
from lakeward.quality.runs import formats
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import LakeTable
from lakeward.quality.runs.order import INCREMENT
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.registry import batches, generations, verifications
from lakeward.spec.model.custom_expectations import OF_COMMITS


def check(
    of: LakeTable,
    found: Range,
    history: History,
    checks: Sequence[ConfiguredCheck],
    now: datetime,
    engines: Engines,
    patience_s: float = PATIENCE_S,
    planning_s: float = PLANNING_S,
) -> list[Check]:
    """The result of every check. Checks that read the same rows share one frame and one timeout."""
    results: dict[str, Check] = {}
    groups: dict[Read, list[ConfiguredCheck]] = {}
    for each in checks:
        read = reading(found, history, each.scope, now)
        if str(each.expectation.type) in OF_COMMITS and found.base and found.head and found.snapshots:
            read = read or Read(found.base.snapshot, found.head.id)
        if read is None:
            results[each.id] = each.blank(State.SKIPPED, "no new rows in the range")
        else:
            groups.setdefault(read, []).append(each)
    patterns.probe({each for check in checks for each in patterns.patterns_of(check.kwargs).values()})
    for read, group in groups.items():
        compute = partial(_computed, of, found, history, read, engines, patience_s, planning_s)
        results |= rescued(found.table, group, engines, compute, patience_s)
    return [results[check.id] for check in checks]


def _computed(
    of: LakeTable,
    found: Range,
    history: History,
    read: Read,
    engines: Engines,
    patience_s: float,
    planning_s: float,
    group: Sequence[ConfiguredCheck],
    limit_s: float | None,
    longer: float,
) -> Attempt:
    """The checks of one read, together; within `limit_s` seconds, if there is such a limit, and plans within `longer`
    times the usual."""
    own_checks = [configured for configured in group if is_own(configured)]
    gx_checks = [configured for configured in group if not is_own(configured)]
    made = Attempt()
    try:
        with patient(engines.session, limit_s or patience_s, found.table, engines, planning_s * longer) as watch:
            made.watch = watch
            for configured in own_checks:
                made.results[configured.id] = check_own(configured, _context(of, found, history, read, engines))
            if gx_checks:
                frame = of.rows(engines.session, read)
                stated = of.footers(read, appended(history, read))
                made.results |= {check.id: check for check in engines.checker.check(frame, gx_checks, stated)}
    except Exception as error:
        if not made.lost_session(error):
            raise
        if made.undisturbed and not no_server(error) and engines.answers():
            words = f"Spark cannot read the rows of {found.table}: {sentence(str(error))}"
            made.results |= {each.id: each.blank(State.ERROR, words) for each in group if each.id not in made.results}
        else:
            made.error = error
    return made


def _context(of: LakeTable, found: Range, history: History, read: Read, engines: Engines) -> CheckContext:
    """What a Lakeward check may use. Nothing is opened before the check needs it."""

    def past(check: str) -> list[Past]:
        with engines.registry() as connection:
            return [Past(at, value) for at, value in verifications.values(connection, found.table, check)]

    def landings(stream: str, seq: int) -> Landings:
        with engines.registry() as connection:
            known = generations.latest(connection).get(stream)
            return Landings(
                [row.as_json() for row in batches.since(connection, stream, seq)], known.spec if known else None
            )

    return CheckContext(
        found=found,
        history=history,
        frame=lambda: of.rows(engines.session, read),
        table=lambda name: formats.current(name, engines),
        past=past,
        rows=lambda part: of.rows(engines.session, part),
        landings=landings,
    )


def first_bad(
    of: LakeTable,
    found: Range,
    history: History,
    configured: Sequence[ConfiguredCheck],
    checks: Sequence[Check],
    engines: Engines,
) -> tuple[int | None, str]:
    """The first snapshot that makes a failed check fail, and a note if it cannot be determined."""
    by_id = {check.id: check for check in configured}
    about = [
        by_id[check.id]
        for check in checks
        if check.state is State.FAIL
        and check.scope == INCREMENT
        and not is_own(by_id[check.id])
        and engines.checker.by_row(by_id[check.id])
    ]
    failed = Failed(
        alone=tuple(each.id for each in about if each.strict and each.expectation.type in ALONE),
        strict=tuple(each.id for each in about if each.strict and each.expectation.type not in ALONE),
        tolerant=tuple(each.id for each in about if not each.strict),
    )

    def oldest() -> OldestFailingRow:
        read = reading(found, history, INCREMENT, datetime.now(UTC)) if failed.alone else None
        steps = found.appends if found.kind is Kind.INCREMENT else (found.head,)
        if read is None or not all(each is not None and each.traced for each in steps):
            return OldestFailingRow()
        if found.kind is Kind.INCREMENT and len(found.appends) == 1:
            return OldestFailingRow()  # the only append is the first bad one
        frame = of.rows(engines.session, read)
        sequence = engines.checker.least(frame, [by_id[each] for each in failed.alone], SEQUENCE_SQL)
        with engines.registry() as connection:
            known = remembered(history, verifications.heads(connection, found.table))
        return OldestFailingRow(None if sequence == NO_SEQUENCE else sequence, known)

    def probe(read: Read, ids: Sequence[str]) -> bool | None:
        return engines.checker.fails(of.rows(engines.session, read), [by_id[check] for check in ids])

    oldest_row = oldest()
    return search(found, failed, probe, oldest_row), _untold(oldest_row)


def _untold(oldest: OldestFailingRow) -> str:
    if oldest.sequence is None or oldest.snapshot is not None:
        return ""
    return f"the oldest failing row was written with sequence number {oldest.sequence}, whose snapshot is expired"


def with_first_batches(result: Result, engines: Engines) -> Result:
    if result.first_bad is None:
        return result
    snapshots = [
        snapshot for snapshot in result.found.snapshots if snapshot.id == result.first_bad
    ]  # empty if it is expired
    with engines.registry() as connection:
        found = batches_of(connection, snapshots) if snapshots else batches.of_snapshots(connection, [result.first_bad])
    return replace(result, first_bad_batches=by_stream(found, snapshots))
