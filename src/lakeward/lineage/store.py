"""What lineage reads from the registry, and how far its events have come. The cursor is a row of `ticks`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from lakeward.lineage.stream_events import Cursor, Facts
from lakeward.platform.errors import expect
from lakeward.registry import batches, generations, heartbeats, maintenance, streams, verifications
from lakeward.registry.engine import now
from lakeward.registry.maintenance import LedgerRow
from lakeward.registry.verifications import Verification

TICK = "lineage"
SETTLED_S = 10.0
"""Rows younger than this are left for the next pass: a transaction that began earlier may still add an older one."""
MOST_BATCHES = 2_000
"""Batches of one stream in one pass; the next pass goes on after them."""
MOST_ROWS = 500
"""Actions, and check runs, in one pass."""


@dataclass(frozen=True)
class Mark:
    """How far a ledger has been sent: the time of the last row, and its key among rows of one time."""

    at: datetime
    key: str


@dataclass(frozen=True)
class Progress:
    """How far all events have come.

    Attributes:
        streams: stream -> its cursor.
        actions, checks: None before the first pass; what was recorded before it is not sent.
        failure: why the last pass ended early; empty after a whole one.
    """

    streams: Mapping[str, Cursor]
    actions: Mark | None = None
    checks: Mark | None = None
    failure: str = ""


def load(connection: Connection) -> Progress:
    """The stored progress; empty before the first pass."""
    tick = heartbeats.newest(connection, TICK)
    if tick is None:
        return Progress({})
    cursors = tick.detail.get("streams")
    return Progress(
        {name: Cursor.read(item) for name, item in (cursors if isinstance(cursors, dict) else {}).items()},
        _mark(tick.detail.get("actions")),
        _mark(tick.detail.get("checks")),
        str(tick.detail.get("failure") or ""),
    )


def save(connection: Connection, progress: Progress, duration_s: float) -> None:
    """Store the progress."""
    heartbeats.record(
        connection,
        TICK,
        duration_s=duration_s,
        streams={name: cursor.document() for name, cursor in progress.streams.items()},
        actions=_document(progress.actions),
        checks=_document(progress.checks),
        failure=progress.failure,
    )


def stream_facts(connection: Connection, cursors: Mapping[str, Cursor]) -> list[Facts]:
    """The facts of every stream, removed ones included while a run of theirs is open."""
    known = {stream.id: stream for stream in streams.all_streams(connection, removed=True)}
    covered = {name: cursors[name].covered if name in cursors else None for name in known}
    fresh = batches.after(connection, covered, settled_s=SETTLED_S, most=MOST_BATCHES)
    numbers = {(name, batch.generation) for name, items in fresh.items() for batch in items}
    numbers |= {(name, cursor.generation) for name, cursor in cursors.items() if name in known and cursor.open}
    described: dict[str, dict[int, generations.Generation]] = defaultdict(dict)
    for name, number in sorted(numbers):
        generation = generations.get(connection, name, number)
        if generation is not None:
            described[name][number] = generation
    clock = now(connection)
    return [
        Facts(
            name,
            "stopped" if stream.removed_at is not None else stream.state,
            stream.why,
            fresh.get(name, []),
            described[name],
            clock,
        )
        for name, stream in known.items()
        if name in fresh or (name in cursors and cursors[name].open)
    ]


def new_actions(connection: Connection, mark: Mark | None) -> tuple[list[LedgerRow], Mark]:
    """The actions that ended after the mark, and the mark after them."""
    if mark is None:
        return [], Mark(_settled(connection), "0")
    rows = maintenance.ended_after(connection, mark.at, int(mark.key), settled_s=SETTLED_S, most=MOST_ROWS)
    ends = [(expect(row["finished_at"], "the end of an action"), row["id"]) for row in rows]
    return rows, Mark(ends[-1][0], str(ends[-1][1])) if ends else mark


def new_check_runs(connection: Connection, mark: Mark | None) -> tuple[list[Verification], Mark]:
    """The check runs recorded after the mark, and the mark after them."""
    if mark is None:
        return [], Mark(_settled(connection), "")
    rows = verifications.recorded_after(connection, mark.at, mark.key, settled_s=SETTLED_S, most=MOST_ROWS)
    return rows, Mark(rows[-1]["at"], rows[-1]["run"]) if rows else mark


def _settled(connection: Connection) -> datetime:
    return now(connection) - timedelta(seconds=SETTLED_S)


def _mark(stored: object) -> Mark | None:
    return Mark(datetime.fromisoformat(stored["at"]), str(stored["key"])) if isinstance(stored, dict) else None


def _document(mark: Mark | None) -> dict[str, str] | None:
    return None if mark is None else {"at": mark.at.isoformat(), "key": mark.key}
