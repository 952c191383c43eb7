"""Check runs: asked for by one process, claimed and worked on by another, answered once.

A run is a row. Whoever works on it has a claim: the row's number at that time, kept by a heartbeat. When that runs out
another takes the run over with the next number, and the older claim is fenced: it neither keeps a result nor answers,
however late its process wakes. All times are the registry's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Update, and_, func, insert, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from lakeward.platform.errors import Terminal
from lakeward.registry.schema import check_runs as runs

CHANNEL = "lakeward_check_runs"
"""Of the notices: something became of a run; the payload is its id."""
CLAIMS = 3
"""A run that was begun this often and never ended is not begun again: it may be what ends its workers."""
ASKED, WORKING, DONE, FAILED, TIMED_OUT = "asked", "working", "done", "failed", "timed_out"
_IDLE_IN_TRANSACTION_MS = 15_000
Line = tuple[str, str, dict[str, Any]]
"""Level, sentence and fields of one event."""


class Fenced(Terminal):
    """Raised when a claim is over: another process has the run, or it was given back."""


@dataclass(frozen=True)
class Claim:
    """The right to work on a run until somebody takes it over."""

    run: int
    number: int


@dataclass(frozen=True)
class Claimed:
    """A run that was just claimed.

    Attributes:
        request: what is asked: {tables, scope, suite}.
        left_s: time it has.
        session_id: of Spark Connect, what an earlier claim left behind there.
    """

    claim: Claim
    request: dict[str, Any]
    left_s: float
    session_id: str | None


@dataclass(frozen=True)
class Run:
    """What whoever asked sees of a run.

    Attributes:
        claim: how often it was begun.
        owner: who works on it, or did.
        asked_s: since it was asked for.
        left_s: until its time is over; negative past it.
        lapsed_s: since its worker's heartbeat ran out; None while it has none, or a fresh one.
        told: the events so far.
        answer: {results} or {failed}, once it is over.
    """

    id: int
    state: str
    claim: int
    owner: str | None
    asked_s: float
    left_s: float
    lapsed_s: float | None
    told: list[Line]
    answer: dict[str, Any] | None


def ask(
    connection: Connection,
    place: str,
    request: dict[str, Any],
    *,
    asked_by: str,
    timeout: timedelta,
    wanted: timedelta,
) -> int:
    """Ask for a run; returns its id.

    Args:
        place: digest of the project and the lake.
        asked_by: for people.
        timeout: time the run has, from now on.
        wanted: for so long it may be begun, unless `want` says again that somebody waits.
    """
    made = connection.execute(
        insert(runs)
        .values(place=place, request=request, asked_by=asked_by,
                deadline=func.now() + timeout, wanted_until=func.now() + wanted)
        .returning(runs.c.id)
    )  # fmt: skip
    run = int(made.scalar_one())
    _notify(connection, run)
    return run


def want(connection: Connection, run: int, wanted: timedelta) -> Run | None:
    """Say that somebody still waits for a run, and see how it stands; None when it is gone."""
    row = connection.execute(
        update(runs)
        .where(runs.c.id == run)
        .values(wanted_until=func.now() + wanted)
        .returning(
            *(runs.c[name] for name in ("id", "state", "claim", "owner", "told", "answer")),
            _seconds(func.now() - runs.c.at).label("asked_s"),
            _seconds(runs.c.deadline - func.now()).label("left_s"),
            _seconds(func.now() - runs.c.claimed_until).label("lapsed_s"),
        )
    ).one_or_none()
    if row is None:
        return None
    values = dict(row._mapping)
    lapsed = values["lapsed_s"] if values["state"] == WORKING else None
    values["lapsed_s"] = lapsed if lapsed is not None and lapsed > 0 else None
    return Run(**values)


def withdraw(connection: Connection, run: int) -> None:
    """Nobody waits any more: a run that was not begun is not begun. One that is at work ends, its results are kept."""
    connection.execute(update(runs).where(runs.c.id == run).values(wanted_until=func.now()))


def claim(connection: Connection, owner: str, ttl: timedelta, *, place: str, run: int | None = None) -> Claimed | None:
    """Take the oldest run of a place (or just this one) that nobody works on, or whose worker's heartbeat ran out.

    Returns:
        None when there is none that somebody waits for.
    """
    free = or_(runs.c.state == ASKED, and_(runs.c.state == WORKING, runs.c.claimed_until < func.now()))
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
            _seconds(runs.c.deadline - func.now()).label("left_s"),
        )
    ).one_or_none()  # fmt: skip
    if row is None:
        return None
    _notify(connection, row.id)
    return Claimed(Claim(row.id, row.claim), row.request, row.left_s, row.session_id)


def beat(connection: Connection, claim: Claim, ttl: timedelta, told: Sequence[Line] = ()) -> bool:
    """A sign of life, with what was told since the last one. False when the claim is over."""
    changed = connection.execute(_of(claim).values(claimed_until=func.now() + ttl, told=_longer(told)))
    if told and changed.rowcount:
        _notify(connection, claim.run)
    return changed.rowcount == 1


def hold(connection: Connection, claim: Claim) -> None:
    """Prove a claim inside a transaction that keeps something: nobody takes the run over before it is committed.

    A process that is paused in the middle would keep everybody from the run: the registry then ends its transaction.

    Raises:
        Fenced: the claim is over.
    """
    connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_IN_TRANSACTION_MS:d}"))
    found = select(runs.c.id).where(runs.c.id == claim.run, runs.c.claim == claim.number, runs.c.state == WORKING)
    if connection.execute(found.with_for_update(key_share=True)).one_or_none() is None:
        raise Fenced(
            f"Check run {claim.run} is not this process's any more",
            why=f"its heartbeat ran out, or it was given back, and another may have it (claim {claim.number} is over); "
            "what this one finds is not kept",
            code="LW-6001",
        )


def remember_session(connection: Connection, claim: Claim, session_id: str) -> None:
    """Record the session of Spark Connect before it works for this claim."""
    connection.execute(_of(claim).values(session_id=session_id))


def give_back(connection: Connection, claim: Claim, told: Sequence[Line] = ()) -> bool:
    """End a claim without an answer: others may begin the run at once. False when the claim was over."""
    changed = connection.execute(_of(claim).values(state=ASKED, claimed_until=None, told=_longer(told)))
    _notify(connection, claim.run)
    return changed.rowcount == 1


def finish(connection: Connection, claim: Claim, state: str, answer: dict[str, Any], told: Sequence[Line] = ()) -> bool:
    """Answer a run (`done`, `failed` or `timed_out`). False when the claim is over: nothing is answered."""
    changed = connection.execute(
        _of(claim).values(state=state, answer=answer, claimed_until=None, finished_at=func.now(), told=_longer(told))
    )
    _notify(connection, claim.run)
    return changed.rowcount == 1


def _of(claim: Claim) -> Update:
    return update(runs).where(runs.c.id == claim.run, runs.c.claim == claim.number, runs.c.state == WORKING)


def _longer(told: Sequence[Line]) -> ColumnElement[Any]:
    return runs.c.told if not told else runs.c.told.op("||")(literal([list(each) for each in told], JSONB))


def _seconds(span: ColumnElement[Any]) -> ColumnElement[float]:
    # a cast: `extract` alone is a decimal
    return cast("ColumnElement[float]", func.extract("epoch", span).op("::")(text("float8")))


def _notify(connection: Connection, run: int) -> None:
    connection.execute(select(func.pg_notify(CHANNEL, str(run))))
