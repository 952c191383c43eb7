"""Plan of a restore: removed batches, new positions of the streams, commits that are lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from lakeward.connectors.commit_protocol import ancestry, position, replay
from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, now
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.request import Plan
from lakeward.operations.restore import continuation, delta_table, history, iceberg_table
from lakeward.operations.restore import text as restore_text
from lakeward.operations.restore.history import NotYetRecorded, Unknown
from lakeward.operations.restore.iceberg_table import IcebergTable
from lakeward.operations.restore.restorable import Restorable
from lakeward.operations.stream import spec_of
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import count, listed, word
from lakeward.registry import batches, generations, maintenance, streams
from lakeward.registry.generations import Generation
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.tables.guard import readers
from lakeward.tables.guard.positions import lands_in, without_position

WORD = "restore"


@dataclass(frozen=True)
class RolledBackPosition:
    """One position that is rolled back.

    Attributes:
        before, position: the present and the new position; None: the position is removed.
        generation: the stream's running generation; None if it is retired or a backfill.
        lands_again: whether records land again, under a new checkpoint.
    """

    stream: str
    before: Position
    position: Position | None
    generation: Generation | None = None
    lands_again: bool = False


@dataclass(frozen=True)
class Marker:
    """Marker of a committed restore, with stream -> the checkpoint that must not be continued."""

    to: int
    at: str
    checkpoints: Mapping[str, str]
    data: Mapping[str, Any]

    def text(self) -> str:
        return json.dumps(self.__dict__, sort_keys=True)


@dataclass(frozen=True)
class RestorePlan(Plan):
    """Plan of a restore.

    Attributes:
        table: the table as it was read.
        backs: the positions that are rolled back.
        verified: the new snapshot of `verified`; None: it is dropped until the next quality run.
        marker: of an earlier run that was killed after its commit; the streams still need new checkpoints.
    """

    table: Restorable = field(kw_only=True, repr=False)
    to: int = field(kw_only=True)
    backs: tuple[RolledBackPosition, ...] = field(default=(), kw_only=True)
    verified: int | None = field(default=None, kw_only=True)
    marker: Marker | None = field(default=None, kw_only=True)


class NotRecorded(Refused):
    """The newest batches are not in the registry yet."""


def open_table(context: Context, name: str) -> Restorable:
    """The table now.

    Raises:
        SpecError: it does not exist.
        Refused: only Spark can read its log.
        Unhealthy: its metadata cannot be read.
        DependencyDown: the catalog or the store does not answer.
    """
    table = iceberg_table.find(context, name)
    found: Restorable | None = IcebergTable(name, table) if table is not None else delta_table.find(context, name)
    if found is None:
        raise SpecError(
            f"There is no table {name!r}",
            why="the catalog has no Iceberg table of that name, and the warehouse no Delta table",
            next="lakeward tables health",
            code="LW-3529",
        )
    return found


def plan(context: Context, name: str, to: int, *, settled: bool = False) -> RestorePlan:
    """Make the plan; changes nothing.

    Args:
        settled: all writers are stopped, so every batch must be recorded.

    Raises:
        NotRecorded: a batch is not recorded yet.
        Refused: the restore is not possible now.
        SpecError: the table does not exist.
        DependencyDown: a broker or the registry does not answer.
    """
    table = open_table(context, name)
    head = table.head
    main = history.chain(head, table.look_up, until=to)
    target = _target(table, to, main)
    with context.connect() as connection:
        not_held(connection, name)
        running = writers(connection, name, table.format)
        for stream, generation in running.items():
            continuation.exact(name, stream, spec_of(generation))
        backs = tuple(
            back
            for stream, at in sorted(position.of_properties(table.properties, name).items())
            if (back := _back(context, connection, table, stream, at, target, running, settled)) is not None
        )
        before_verified = table.verified(connection)
        verified = _verified(connection, table, target, before_verified)
        read_past = _read_past(connection, table, target)
    table.check(to)
    lines, of_streams = _of_streams(backs)
    removed = main[: next(index for index, link in enumerate(main) if link.snapshot == to)]
    _check_no_quarantine_commit(table, removed)
    strangers, strange = restore_text.lost_commits(table, removed, set(position.streams_of(table.properties)))
    lines += strange
    if read_past:
        lines.append(f"{listed(read_past)} has read later snapshots: rows it landed from them stay in its table")
    if before_verified is not None and before_verified != verified:
        back_to = f"moves back to {table.noun} {verified}"
        where = "is dropped until the next quality run" if verified is None else back_to
        lines.append(f"{table.verified_name} {where}")
    before, after = table.records(head), table.records(to)
    data = {
        "from_snapshot": head, "to_snapshot": to, "commits": len(removed), "records_before": before,
        "records_after": after, "verified_snapshot": verified, "streams": of_streams, "of_nobody": strangers,
        "readers": read_past,
    }  # fmt: skip
    rows = f"{before:,} to {after:,} rows"
    text = f"roll {name} back from {table.noun} {head} to {to}: {count(len(removed), 'commit')}, {rows}"
    key = {"to": to, "of_nobody": strangers, "end": {entry["stream"]: entry.get("end") for entry in of_streams}}
    of_table = tuple(sorted(running))
    there = head == to and not backs
    return RestorePlan(
        text, tuple(lines), data, json.dumps(key, sort_keys=True), holds=of_table, drains=of_table, leases=(name,),
        nothing=f"{name} is at {table.noun} {to} already" if there else "", table=table, to=to, backs=backs,
        verified=verified,
    )  # fmt: skip


def _of_streams(backs: tuple[RolledBackPosition, ...]) -> tuple[list[str], list[restore_text.RestoredStream]]:
    lines: list[str] = []
    documents: list[restore_text.RestoredStream] = []
    for back in backs:
        if back.position is None:
            lines.append(f"{back.stream}: {count(back.before.totals.landed, 'row')} removed; run that backfill again")
            documents.append({"stream": back.stream, "rows": back.before.totals.landed, "replayed": [], "end": None})
        elif back.lands_again:
            data, words = restore_text.of_stream(back.stream, back.before, back.position)
            lines += words
            documents.append({**data, "end": back.position.end})
    return lines, documents


def _target(table: Restorable, to: int, main: list[Link]) -> Link:
    """The snapshot, if it is an ancestor of main's head.

    Raises:
        Refused: it has expired or is not an ancestor of main's head.
    """
    link = next((link for link in main if link.snapshot == to), None)
    if link is not None:
        return link
    newest = ", ".join(f"{link.snapshot} ({table.moment(link.snapshot)})" for link in main[:5]) or "none"
    if table.look_up(to) is None:
        why = f"the {table.noun} has expired or never was one of this table; the newest on main: {newest}"
    else:
        why = (
            f"the {table.noun} is not an ancestor of main's head: it is on another branch, staged, was rolled back, or "
            "the table was replaced since (CREATE OR REPLACE TABLE); "
            f"the newest on main: {newest}"
        )
    raise Refused(
        f"Cannot restore table {table.name} to {table.noun} {to}",
        why=why,
        next=f"list its history: {table.history}",
        code="LW-2059",
    )


def _check_no_quarantine_commit(table: Restorable, removed: list[Link]) -> None:
    """Check that no replay or quarantine commit is rolled back: rows would be lost or duplicated.

    Raises:
        Refused: one was published since the snapshot.
    """
    acts = [link for link in removed if replay.is_act(link.attempt or link.wap_id or "")]
    if acts:
        newest = acts[0]
        raise Refused(
            f"Cannot restore table {table.name} to before {table.noun} {newest.snapshot}",
            why=f"that {table.noun} moved rows from or to quarantine ({table.moment(newest.snapshot)}), and the "
            "quarantine would still count them as moved",
            next=f"restore to that {table.noun} or a later one: lakeward tables restore "
            f"{word(table.name)} --to {newest.snapshot} --dry-run",
            code="LW-2060",
        )


def not_held(connection: Connection, name: str) -> None:
    """Check that no person holds the table.

    Raises:
        Refused: a person does.
    """
    row = maintenance.all_tables(connection).get(name)
    if row is None or row.hold_until is None:
        return
    if row.hold_until > connection.execute(select(func.now())).scalar_one():
        raise Refused(
            f"Table {name} is held until {row.hold_until:%Y-%m-%d %H:%M} UTC",
            why="a person suspended all operations on it",
            next=f'lakeward tables unhold {word(name)} --comment "the reason of the hold is over"',
            code="LW-2061",
        )


def writers(connection: Connection, name: str, format_: str = "iceberg") -> dict[str, Generation]:
    """Stream -> running generation, of all streams that write the table."""
    rows = streams.all_streams(connection)
    writing = generations.of_streams(connection, {row.id: row.generation for row in rows})
    return {
        stream: generation
        for stream, generation in writing.items()
        if ((generation.spec.get("sink") or {}).get(format_) or {}).get("table") == name
    }


def _back(
    context: Context, connection: Connection, table: Restorable, stream: str, at: Position, target: Link,
    running: Mapping[str, Generation], settled: bool,
) -> RolledBackPosition | None:  # fmt: skip
    """The rolled-back position; None if it is at or before the snapshot and stays."""
    name, noun, look_up = table.name, table.noun, table.look_up
    if ancestry.walk(target.snapshot, look_up, at.snapshot, at.snapshot_seq).right:
        return None
    try:
        removed = history.batches_after(stream, at, target, look_up)
        if "@" in stream:  # a backfill: no driver lands it, a person runs it again
            history.wholly_after(stream, target, look_up)
            return RolledBackPosition(stream, at, None)
        first = min((history.seq_of(link, stream) for link in removed), default=at.seq + 1)
        earlier = history.earlier_state(stream, at, removed, batches.since(connection, stream, first), settled=settled)
    except Unknown as error:
        why = f"the stream's position at that {noun} is unknown: {error}"
        if isinstance(error, NotYetRecorded):
            raise NotRecorded(
                f"Cannot restore table {name} to {noun} {target.snapshot}: newest batches of {stream} not recorded",
                why=why,
                next=f"wait until the batches are recorded (lakeward streams batches {stream}), then restore again",
                code="LW-2098",
            ) from None
        raise Refused(
            f"Cannot restore table {name} to {noun} {target.snapshot}: stream {stream} cannot follow",
            why=why,
            next=f"restore to a later {noun}, or rebuild the table: lakeward streams rebuild {stream} --dry-run",
            code="LW-2097",
        ) from None
    generation = running.get(stream)
    row = streams.find(connection, stream)
    if generation is None and (row is None or row.removed_at is None):
        if row is not None and (tables := lands_in(connection, stream)):
            raise _of_a_copy(context, table, stream, tables)
        raise Refused(
            f"Cannot restore table {name}: stream {stream} landed in it and cannot be stopped from here",
            why="in this registry that stream does not write the table",
            next="run the restore with the registry where the stream is deployed",
            code="LW-2062",
        )
    snapshot = table.moved(target.snapshot)
    if not earlier.removed:  # the position was moved under a later head, and no batch has landed since
        return RolledBackPosition(
            stream, at, at.model_copy(update={**snapshot, "seq": at.seq + 1, "at": now()}), generation
        )
    end = {source: at.begin.get(source, NO_DATA) if text == NO_DATA else text for source, text in earlier.end.items()}
    if generation is not None:
        end = continuation.offsets(context, name, stream, spec_of(generation), at, end)
    skips, skipped = sink_position.skipped(at, end)
    totals = earlier.totals.model_copy(update={"skipped": skipped})
    moved = at.moved(WORD, context.author, end=end, skips=skips, totals=totals, complete_through=None, **snapshot)
    return RolledBackPosition(stream, at, moved, generation, lands_again=True)


def _of_a_copy(context: Context, table: Restorable, stream: str, tables: set[str]) -> Refused:
    """The refusal for a table with the position of a stream that lands in another one."""
    name = table.name
    if table.format == "iceberg":
        unset = without_position(name, prefix_in(context.runtime.lake, name), stream)
        next_ = f"if it is a copy, take the position out: {unset}   then restore again"
    else:
        next_ = "if it is a copy, no stream follows it: restore it by Spark's own RESTORE TABLE"
    return Refused(
        f"Cannot restore table {name}: it has the position of stream {stream}",
        why=f"that stream lands in {listed(sorted(tables))}, so {name} may be a copy of that table",
        next=next_,
        code="LW-2528",
    )


def _verified(connection: Connection, table: Restorable, target: Link, before: int | None) -> int | None:
    """The verified snapshot after the restore: unchanged, or the newest proven snapshot that stays."""
    if before is None or any(link.snapshot == before for link in history.ancestors(target.snapshot, table.look_up)):
        return before
    proved = table.proven(connection)
    return next(
        (link.snapshot for link in history.ancestors(target.snapshot, table.look_up) if link.snapshot in proved), None
    )


def _read_past(connection: Connection, table: Restorable, target: Link) -> list[str]:
    """Streams that read the table incrementally and have read removed snapshots."""
    known = [
        (reader.stream, at)
        for reader in readers.registered(connection).get(table.name, ())
        if reader.format == table.format
        and reader.at is not None
        and (at := table.read_up_to(reader.at)) is not None
        and table.look_up(at)
    ]
    remaining = {link.snapshot for link in history.ancestors(target.snapshot, table.look_up)} if known else set()
    return sorted(stream for stream, at in known if at not in remaining)
