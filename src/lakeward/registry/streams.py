"""Streams: desired and observed state of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import Connection, Row, String, case, cast, column, exists, func, null, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert

from lakeward.platform.errors import SpecError
from lakeward.registry.operations import STARTS
from lakeward.registry.schema import drivers, operations, streams


class Block(TypedDict, total=False):
    """Why a stream waits for a person. `streams.blocked` may have fewer keys: an older version wrote it.

    Attributes:
        at: since when, RFC 3339; `block` sets it.
        reason: the class of the block, e.g. `poison`, `rolled-back`.
        batch, offsets: the failed batch, if one failed.
        error, log: the whole text of the error, and the last lines of the driver's log.
    """

    at: str
    reason: str
    what: str
    why: str
    next: str
    batch: int | None
    offsets: Mapping[str, object] | None
    error: str
    log: list[str]


class StoredProving(TypedDict, total=False):
    """The conditions of a new generation as JSON: `supervision.decide.stability.Proving`, times as RFC 3339."""

    generation: int
    previous: int | None
    since: str
    until: str
    batches: int
    author: str
    looked: str | None
    lost_s: float


@dataclass(frozen=True)
class Stream:
    """One declared stream. `since`: since when it has its `state`."""

    id: str
    desired: str
    generation: int
    pending_generation: int | None
    driver: str
    state: str
    why: str
    since: datetime
    run_after: datetime | None
    hold_until: datetime | None
    blocked: Block | None
    removed_at: datetime | None
    updated_at: datetime
    proving: StoredProving | None = None


def _read(row: Row[Any]) -> Stream:
    return Stream(**row._mapping)


def all_streams(connection: Connection, *, removed: bool = False) -> list[Stream]:
    """Every stream, ordered by id; retired ones only with `removed`."""
    statement = select(streams).order_by(streams.c.id)
    if not removed:
        statement = statement.where(streams.c.removed_at.is_(None))
    return [_read(row) for row in connection.execute(statement)]


def find(connection: Connection, stream: str) -> Stream | None:
    """One stream, or None."""
    row = connection.execute(select(streams).where(streams.c.id == stream)).one_or_none()
    return None if row is None else _read(row)


def get(connection: Connection, stream: str) -> Stream:
    """One stream.

    Raises:
        SpecError: there is no such stream; names the known ones.
    """
    row = find(connection, stream)
    if row is None:
        from lakeward.spec.read.problems import nearest  # loaded only for a wrong id

        known = [item.id for item in all_streams(connection)]
        near = nearest(stream, known)
        raise SpecError(
            f"There is no stream {stream!r}",
            why=f"Known streams: {', '.join(known) or 'none is deployed yet'}"
            + ("" if near is None else f"; did you mean {near}?"),
            next="lakeward streams list   or, of a new file: lakeward deploy"
            if near is None
            else f"lakeward streams status {near}   or, of a new file: lakeward deploy",
            code="LW-6007",
        )
    return row


def of_driver(connection: Connection, driver: str) -> list[Stream]:
    """The streams a driver hosts."""
    return [item for item in all_streams(connection) if item.driver == driver]


def accept(connection: Connection, stream: str, *, generation: int, driver: str, desired: str | None = None) -> None:
    """Create the stream's row, or make `generation` the current one and clear the pending one."""
    values = {"generation": generation, "driver": driver}
    if desired is not None:
        values["desired"] = desired
    connection.execute(
        insert(streams)
        .values(id=stream, **values)
        .on_conflict_do_update(
            index_elements=[streams.c.id],
            set_={**values, "pending_generation": None, "removed_at": None, "updated_at": func.now()},
        )
    )


def set_pending(connection: Connection, stream: str, generation: int | None) -> None:
    """Record a deployed generation that waits for `upgrade`."""
    _change(connection, stream, pending_generation=generation)


def set_desired(connection: Connection, names: Sequence[str], desired: str, *, keep_block: bool = False) -> None:
    """Set the desired state of streams: `running` or `stopped`. A start clears a block, unless `keep_block`."""
    values: dict[str, object] = {"desired": desired, "updated_at": func.now()}
    if desired == "running" and not keep_block:
        values |= {"blocked": None, "run_after": None}
    connection.execute(update(streams).where(streams.c.id.in_(names)).values(**values))


def complete(connection: Connection, stream: str, *, token: str, begun: datetime) -> bool:
    """Set a stream's desired state to stopped, because all that was available has landed.

    Args:
        token: of the launch that reports it; an older launch is ignored.
        begun: database time before its query listed what is available. A start requested since then needs another
            query.

    Returns:
        Whether the desired state was changed.
    """
    newest_launch = exists().where(drivers.c.name == streams.c.driver, drivers.c.token == token)
    requested = exists().where(
        operations.c.stream == streams.c.id,
        operations.c.operation.in_(STARTS),
        operations.c.requested_at > begun,
        operations.c.result.is_distinct_from("refused"),
    )
    changed = connection.execute(
        update(streams)
        .where(streams.c.id == stream, streams.c.desired == "running", newest_launch, ~requested)
        .values(desired="stopped", updated_at=func.now())
    )
    return changed.rowcount == 1


def set_state(connection: Connection, stream: str, state: str, why: str) -> bool:
    """Record the state. `since` changes only with the state; returns whether it did."""
    before = connection.execute(select(streams.c.state).where(streams.c.id == stream).with_for_update()).scalar_one()
    connection.execute(
        update(streams)
        .where(streams.c.id == stream)
        .values(
            since=case((streams.c.state == state, streams.c.since), else_=func.now()),
            state=state,
            why=why,
            updated_at=func.now(),
        )
    )
    return bool(before != state)


def set_states(connection: Connection, states: Mapping[str, tuple[str, str]]) -> None:
    """Record (state, why) of many streams in one statement; `since` changes only with the state."""
    if not states:
        return
    rows = [{"id": name, "state": state, "why": why} for name, (state, why) in states.items()]
    given = (
        func.jsonb_to_recordset(cast(rows, JSONB))
        .table_valued(column("id", String), column("state", String), column("why", String), name="given")
        .render_derived(with_types=True)
    )
    connection.execute(
        update(streams)
        .where(streams.c.id == given.c.id)
        .values(
            since=case((streams.c.state == given.c.state, streams.c.since), else_=func.now()),
            state=given.c.state,
            why=given.c.why,
            updated_at=func.now(),
        )
    )


def block(connection: Connection, stream: str, reason: Block) -> None:
    """Block a stream until a person acts, from now on."""
    at: datetime = connection.execute(select(func.now())).scalar_one()
    _change(connection, stream, blocked={"at": at.isoformat(), **reason})


def set_run_after(connection: Connection, stream: str, moment: datetime | None) -> None:
    """Do not start the stream's query again before `moment` (back-off inside a driver), nor before a hold is over."""
    not_before = func.greatest(moment, case((streams.c.hold_until > func.now(), streams.c.hold_until)))
    _change(connection, stream, run_after=None if moment is None else not_before)


def set_hold(connection: Connection, stream: str, until: datetime | None) -> None:
    """Hold automatic restarts until a time; None lifts it. A pending attempt of a query is held, too."""
    if until is not None:
        pause = case((streams.c.run_after > func.now(), until))
    else:
        pause = case((streams.c.run_after < streams.c.hold_until, streams.c.run_after))
    _change(connection, stream, hold_until=until, run_after=pause)


def set_proving(connection: Connection, stream: str, proof: StoredProving | None) -> None:
    """Set or clear the conditions of a new generation (`supervision.decide.stability.Proving`)."""
    _change(connection, stream, proving=null() if proof is None else proof)


def count_proving(connection: Connection, stream: str, before: StoredProving | None, proof: StoredProving) -> None:
    """Update the conditions of a new generation, unless they were cleared or replaced in the meantime."""
    still = (streams.c.id == stream) & (streams.c.proving == before)
    connection.execute(update(streams).where(still).values(proving=proof))


def remove(connection: Connection, stream: str) -> None:
    """Retire a stream: stop it and keep its history."""
    _change(connection, stream, removed_at=func.now(), desired="stopped")


def _change(connection: Connection, stream: str, **values: Any) -> None:
    connection.execute(update(streams).where(streams.c.id == stream).values(updated_at=func.now(), **values))
