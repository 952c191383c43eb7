"""Check runs: a queue. One process requests a run, another claims and executes it, and it is answered once.

A run is a row. Its worker has a claim: a claim number, kept alive by a heartbeat. When the heartbeat expires, another
worker takes over with the next number, and the older claim is fenced: it can neither store a result nor answer, however
late its process resumes. All times are the registry's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict, cast

from sqlalchemy import ColumnElement, Connection, Update, and_, func, insert, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from lakeward.platform.errors import Terminal
from lakeward.registry.schema import check_runs as runs

CHANNEL = "lakeward_check_runs"
"""Channel of NOTIFY: a run changed; the payload is its id."""
CLAIMS = 3
"""A run that was claimed this many times without an end is not claimed again: it may be what kills its workers."""
REQUESTED, WORKING, DONE, FAILED, TIMED_OUT = "asked", "working", "done", "failed", "timed_out"
_IDLE_IN_TRANSACTION_MS = 15_000
Line = tuple[str, str, Mapping[str, object]]
"""Level, sentence and fields of one event."""


class Fenced(Terminal):
    """Raised when a claim is over: another process has the run, or it was released."""


class RunRequest(TypedDict):
    """What is to be checked. `tables` None: every table that is due; `upto` None: up to the head."""

    tables: list[str] | None
    scope: str | None
    suite: str | None
    upto: int | None


class FailedRun(TypedDict):
    """An error as its requester raises it again: `kind` is the name of its class."""

    kind: str
    what: str
    why: str
    next: str
    code: str


class Answer(TypedDict, total=False):
    """The answer of a run: the results as JSON of `quality run`, or the error."""

    results: Sequence[Mapping[str, object]]
    failed: FailedRun


@dataclass(frozen=True)
class Claim:
    """The right to work on a run, until another process takes it over."""

    run: int
    number: int


@dataclass(frozen=True)
class Claimed:
    """A run that was just claimed.

    Attributes:
        remaining_s: remaining time.
        session_id: the Spark Connect session of an earlier claim.
    """

    claim: Claim
    request: RunRequest
    remaining_s: float
    session_id: str | None


@dataclass(frozen=True)
class Run:
    """A run as its requester sees it.

    Attributes:
        claim: number of claims so far.
        owner: the current or last worker.
        waited_s: time since the request.
        remaining_s: time until the deadline; negative after it.
        expired_s: time since its worker's heartbeat expired; None without a worker, or with a live heartbeat.
        told: the events so far.
        answer: once it has ended.
    """

    id: int
    state: str
    claim: int
    owner: str | None
    waited_s: float
    remaining_s: float
    expired_s: float | None
    told: list[Line]
    answer: Answer | None


def ask(
    connection: Connection,
    place: str,
    request: RunRequest,
    *,
    asked_by: str,
    timeout: timedelta,
    wait: timedelta,
) -> int:
    """Request a run; returns its id.

    Args:
        place: digest of the project and the lake.
        asked_by: the requester, for display.
        timeout: time the run has, from now on.
        wait: for this long it may be claimed, unless `extend_wait` extends it.
    """
    made = connection.execute(
        insert(runs)
        .values(place=place, request=request, asked_by=asked_by,
                deadline=func.now() + timeout, wanted_until=func.now() + wait)
        .returning(runs.c.id)
    )  # fmt: skip
    run = int(made.scalar_one())
    _notify(connection, run)
    return run


def extend_wait(connection: Connection, run: int, wait: timedelta) -> Run | None:
    """Record that the requester still waits for a run, and return its state; None if it does not exist any more."""
    row = connection.execute(
        update(runs)
        .where(runs.c.id == run)
        .values(wanted_until=func.now() + wait)
        .returning(
            *(runs.c[name] for name in ("id", "state", "claim", "owner", "told", "answer")),
            _seconds(func.now() - runs.c.at).label("waited_s"),
            _seconds(runs.c.deadline - func.now()).label("remaining_s"),
            _seconds(func.now() - runs.c.claimed_until).label("expired_s"),
        )
    ).one_or_none()
    if row is None:
        return None
    values = dict(row._mapping)
    lapsed = values["expired_s"] if values["state"] == WORKING else None
    values["expired_s"] = lapsed if lapsed is not None and lapsed > 0 else None
    return Run(**values)


def withdraw(connection: Connection, run: int) -> None:
    """Record that the requester stopped waiting: an unclaimed run is not claimed any more; a claimed run continues."""
    connection.execute(update(runs).where(runs.c.id == run).values(wanted_until=func.now()))


def claim(connection: Connection, owner: str, ttl: timedelta, *, place: str, run: int | None = None) -> Claimed | None:
    """Claim the oldest run of a place (or the given run) that has no worker, or whose worker's heartbeat expired.

    Returns:
        None if no run has a waiting requester.
    """
    free = or_(runs.c.state == REQUESTED, and_(runs.c.state == WORKING, runs.c.claimed_until < func.now()))
    open_ = [runs.c.place == place, free, runs.c.wanted_until > func.now(), runs.c.deadline > func.now()]
    if run is not None:
        open_.append(runs.c.id == run)
    chosen = (
        select(runs.c.id)
        .where(*open_, runs.c.claim < CLAIMS)
        .order_by(runs.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    row = connection.execute(
        update(runs)
        .where(runs.c.id == chosen)
        .values(state=WORKING, claim=runs.c.claim + 1, owner=owner, claimed_until=func.now() + ttl)
        .returning(
            runs.c.id, runs.c.claim, runs.c.request, runs.c.session_id,
            _seconds(runs.c.deadline - func.now()).label("remaining_s"),
        )
    ).one_or_none()  # fmt: skip
    if row is None:
        return None
    _notify(connection, row.id)
    return Claimed(Claim(row.id, row.claim), row.request, row.remaining_s, row.session_id)


def beat(connection: Connection, claim: Claim, ttl: timedelta, lines: Sequence[Line] = ()) -> bool:
    """Record a heartbeat, with the events since the last one. False if the claim is over."""
    changed = connection.execute(_of(claim).values(claimed_until=func.now() + ttl, told=_appended(lines)))
    if lines and changed.rowcount:
        _notify(connection, claim.run)
    return changed.rowcount == 1


def hold(connection: Connection, claim: Claim) -> None:
    """Lock a claim inside a transaction that stores results: no other process can take over the run before the commit.

    A process that is paused in the transaction would block the run: the registry ends an idle transaction.

    Raises:
        Fenced: the claim is over.
    """
    connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_IN_TRANSACTION_MS:d}"))
    row = select(runs.c.id).where(runs.c.id == claim.run, runs.c.claim == claim.number, runs.c.state == WORKING)
    if connection.execute(row.with_for_update(key_share=True)).one_or_none() is None:
        raise Fenced(
            f"Check run {claim.run}: this process lost its claim",
            why=f"Claim {claim.number} is over: its heartbeat expired or it was released, and another process may have "
            "the run. The results of this process are not stored",
            code="LW-6001",
        )


def remember_session(connection: Connection, claim: Claim, session_id: str) -> None:
    """Record the Spark Connect session before it works for this claim."""
    connection.execute(_of(claim).values(session_id=session_id))


def give_back(connection: Connection, claim: Claim, lines: Sequence[Line] = ()) -> bool:
    """End a claim without an answer: another process may claim the run at once. False if the claim was over."""
    changed = connection.execute(_of(claim).values(state=REQUESTED, claimed_until=None, told=_appended(lines)))
    _notify(connection, claim.run)
    return changed.rowcount == 1


def finish(connection: Connection, claim: Claim, state: str, answer: Answer, lines: Sequence[Line] = ()) -> bool:
    """Answer a run (`done`, `failed` or `timed_out`). False if the claim is over: the answer is not stored."""
    changed = connection.execute(
        _of(claim).values(state=state, answer=answer, claimed_until=None, finished_at=func.now(), told=_appended(lines))
    )
    _notify(connection, claim.run)
    return changed.rowcount == 1


def _of(claim: Claim) -> Update:
    return update(runs).where(runs.c.id == claim.run, runs.c.claim == claim.number, runs.c.state == WORKING)


def _appended(lines: Sequence[Line]) -> ColumnElement[Any]:
    return runs.c.told if not lines else runs.c.told.op("||")(literal([list(line) for line in lines], JSONB))


def _seconds(span: ColumnElement[Any]) -> ColumnElement[float]:
    # a cast: `extract` alone is a decimal
    return cast("ColumnElement[float]", func.extract("epoch", span).op("::")(text("float8")))


def _notify(connection: Connection, run: int) -> None:
    connection.execute(select(func.pg_notify(CHANNEL, str(run))))
