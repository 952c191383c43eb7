"""Verifications: check runs, their checks, and the snapshot up to which a table is proven."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired, TypedDict, cast

from sqlalchemy import Connection, Row, Select, case, func, insert, literal, null, select, tuple_, update
from sqlalchemy.dialects.postgresql import distinct_on

from lakeward.platform.errors import expect
from lakeward.registry.schema import checks, verifications


class LandedBatches(TypedDict):
    """Batches that one stream landed in a range: their seqs, their number, and the offsets of the first and the last.

    `start` and `end` are None for batches that the registry does not have any more.
    """

    stream: str
    from_seq: int | None
    to_seq: int | None
    batches: int
    start: Mapping[str, str] | None
    end: Mapping[str, str] | None


class Verification(TypedDict):
    """One check run: the columns of `schema.verifications`. `published_at` is set by `mark_published`."""

    run: str
    table: str
    suite: str
    scope: str
    at: datetime
    from_snapshot: int | None
    to_snapshot: int | None
    to_sequence: int | None
    to_commit: str | None
    verdict: str
    first_bad_snapshot: int | None
    verified_snapshot: int | None
    batches: list[LandedBatches] | None
    spark_jobs: int | None
    duration_s: float | None
    note: str
    cpu_s: float | None
    published_at: NotRequired[datetime | None]


class CheckDetails(TypedDict, total=False):
    """What a check records without a column of its own; an older version may have recorded less.

    Attributes:
        rows: how many rows it checked.
        kwargs: of the expectation, as the suite has them.
        effect: record | warn | hold.
        excuse: the waiver in force, as `ActiveWaiver.document` wrote it.
        by: metadata | rows | stock, or one of Lakeward's own checks.
    """

    rows: int | None
    kwargs: dict[str, object]
    scope: str
    on_fail: str
    effect: str
    waived: bool
    waive_until: str | None
    excuse: dict[str, str] | None
    why: str | None
    error: str | None
    by: str | None


class CheckFacts(CheckDetails, total=False):
    """The column `observed`. `value` is what the expectation reports, of any JSON type."""

    value: object


class CheckResult(TypedDict):
    """One check of a run: the columns of `schema.checks`. `record` adds `run`; `checks_of_runs` omits `sample`."""

    run: NotRequired[str]
    check: str
    expectation: str
    severity: str
    state: str
    observed: CheckFacts | None
    unexpected_count: int | None
    sample: NotRequired[list[dict[str, object]] | None]


def record(connection: Connection, run: Verification, results: Sequence[CheckResult]) -> None:
    """Store one run and its checks."""
    connection.execute(insert(verifications).values(**run))
    if results:
        connection.execute(insert(checks), [{**result, "run": run["run"]} for result in results])


def _read(row: Row[Any]) -> Verification:
    return cast("Verification", dict(row._mapping))


def add_note(connection: Connection, run: str, note: str) -> None:
    """Append to the note of a recorded run; an equal note is not repeated."""
    current = verifications.c.note
    condition = (verifications.c.run == run, ~current.contains(note, autoescape=True))
    joined = case((current == "", note), else_=current + "; " + note)
    connection.execute(update(verifications).where(*condition).values(note=joined))


def newest(connection: Connection, table: str, *, suite: str | None = None, limit: int = 20) -> list[Verification]:
    """The newest runs of a table, newest first; of one suite digest when given."""
    statement = select(verifications).where(verifications.c.table == table)
    if suite is not None:
        statement = statement.where(verifications.c.suite == suite)
    rows = connection.execute(statement.order_by(verifications.c.at.desc()).limit(limit))
    return [_read(row) for row in rows]


def newest_of_tables(connection: Connection) -> list[Verification]:
    """The newest run of each table."""
    order = (verifications.c.table, verifications.c.at.desc())
    statement = select(verifications).ext(distinct_on(verifications.c.table)).order_by(*order)
    return [_read(row) for row in connection.execute(statement)]


def recorded_after(
    connection: Connection, moment: datetime, run: str, *, settled_s: float, most: int
) -> list[Verification]:
    """Runs recorded after a run (its time and id), oldest first.

    Args:
        settled_s: younger runs are left out: a transaction that began earlier may still add an older one.
    """
    statement = (
        select(verifications)
        .where(tuple_(verifications.c.at, verifications.c.run) > tuple_(literal(moment), literal(run)))
        .where(verifications.c.at < func.now() - timedelta(seconds=settled_s))
        .order_by(verifications.c.at, verifications.c.run)
        .limit(most)
    )
    return [_read(row) for row in connection.execute(statement)]


def heads(connection: Connection, table: str) -> list[tuple[int | None, int, int]]:
    """Base, head and the head's sequence number of every recorded run of a table that has one, newest first."""
    base, head, sequence = (verifications.c[name] for name in ("from_snapshot", "to_snapshot", "to_sequence"))
    statement = select(base, head, sequence).where(
        verifications.c.table == table, head.is_not(None), sequence.is_not(None)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(statement.order_by(verifications.c.at.desc()))]


def tables(connection: Connection) -> list[str]:
    """Every table with a recorded run."""
    rows = connection.execute(select(verifications.c.table).distinct().order_by(verifications.c.table))
    return [str(row.table) for row in rows]


def of_run(connection: Connection, run: str) -> Verification | None:
    """One run by its id."""
    row = connection.execute(select(verifications).where(verifications.c.run == run)).one_or_none()
    return None if row is None else _read(row)


def last_verified(connection: Connection, table: str) -> Verification | None:
    """The newest run that left `verified` on a snapshot: the proof from which the branch is repaired."""
    row = connection.execute(
        select(verifications)
        .where(verifications.c.table == table, verifications.c.verified_snapshot.is_not(None))
        .order_by(verifications.c.at.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else _read(row)


def checks_of(connection: Connection, run: str) -> list[CheckResult]:
    """The checks of one run."""
    rows = connection.execute(select(checks).where(checks.c.run == run).order_by(checks.c.check))
    return [cast("CheckResult", dict(row._mapping)) for row in rows]


def checks_of_runs(connection: Connection, runs: Sequence[str]) -> dict[str, list[CheckResult]]:
    """Run -> its checks without their samples, which are the larger part."""
    result: dict[str, list[CheckResult]] = {}
    columns = [column for column in checks.c if column is not checks.c.sample]
    statement = select(*columns).where(checks.c.run.in_(runs)).order_by(checks.c.run, checks.c.check)
    for row in connection.execute(statement):
        result.setdefault(row.run, []).append(cast("CheckResult", dict(row._mapping)))
    return result


def values(connection: Connection, table: str, check: str, limit: int = 2000) -> list[tuple[datetime, float]]:
    """The numeric values that a check observed in earlier runs of a table, newest first."""
    value = checks.c.observed["value"]["value"]
    rows = connection.execute(
        select(verifications.c.at, value.as_float())
        .join(checks, checks.c.run == verifications.c.run)
        .where(
            verifications.c.table == table,
            checks.c.check == check,
            checks.c.state.in_(["pass", "fail"]),
            func.jsonb_typeof(value) == "number",
        )
        .order_by(verifications.c.at.desc())
        .limit(limit)
    )
    return [(row[0], row[1]) for row in rows]


def unpublished(connection: Connection, limit: int) -> list[Verification]:
    """Runs whose results the lake's table does not have, oldest first; locked, without those locked by others."""
    statement = (
        select(verifications)
        .where(verifications.c.published_at.is_(None))
        .order_by(verifications.c.at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return [_read(row) for row in connection.execute(statement)]


def mark_published(connection: Connection, runs: Sequence[str]) -> None:
    """Record that the lake's table has these runs."""
    connection.execute(update(verifications).where(verifications.c.run.in_(runs)).values(published_at=func.now()))


def proofs(connection: Connection, table: str, limit: int = 100) -> list[Verification]:
    """The newest runs that proved their own head, newest first: what `verified` may be rebuilt from."""
    return [_read(row) for row in connection.execute(_proofs(table).limit(limit))]


def head_of(proof: Verification) -> int:
    """The snapshot that a run proved."""
    return expect(proof["to_snapshot"], f"the head of run {proof['run']}, which proved it")


def _proofs(table: str) -> Select[Any]:
    """The runs that proved their own head, newest first."""
    return (
        select(verifications)
        .where(
            verifications.c.table == table,
            verifications.c.verdict.in_(["pass", "warn"]),
            verifications.c.verified_snapshot == verifications.c.to_snapshot,
        )
        .order_by(verifications.c.at.desc())
    )


def proof_before(connection: Connection, table: str, moment: datetime) -> int | None:
    """The snapshot that the newest run that began before a moment proved."""
    statement = _proofs(table).where(verifications.c.at < moment).limit(1)
    row = connection.execute(statement).one_or_none()
    return None if row is None else int(row.to_snapshot)


def samples(connection: Connection, table: str) -> int:
    """How many checks of a table's runs store failing rows."""
    statement = select(func.count()).select_from(checks).where(checks.c.run.in_(_runs(table)), *_HAS_ROWS)
    return int(connection.execute(statement).scalar_one())


def forget_values(connection: Connection, table: str, matches: Callable[[str], bool]) -> None:
    """Delete all failing rows stored for a table's runs, and each observed value whose text `matches`."""
    of_table = checks.c.run.in_(_runs(table))
    connection.execute(update(checks).where(of_table, *_HAS_ROWS).values(sample=null()))
    for row in connection.execute(select(checks.c.run, checks.c.check, checks.c.observed).where(of_table)).all():
        if row.observed is not None and matches(json.dumps(row.observed, ensure_ascii=False)):
            remaining = {
                name: value
                for name, value in row.observed.items()
                if not matches(json.dumps(value, ensure_ascii=False))
            }
            key = (checks.c.run == row.run, checks.c.check == row.check)
            connection.execute(update(checks).where(*key).values(observed=remaining))


_HAS_ROWS = (checks.c.sample.is_not(None), func.jsonb_typeof(checks.c.sample) != "null", checks.c.sample != [])


def _runs(table: str) -> Select[tuple[str]]:
    return select(verifications.c.run).where(verifications.c.table == table)
