"""What a restore would do: which batches go, where each stream goes on, and whose rows nobody lands again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy import Connection, func, select

from lakeward.connectors.commit_protocol import ancestry, position, replay
from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, now
from lakeward.connectors.iceberg import rollback
from lakeward.connectors.iceberg.pyiceberg_table import link_of
from lakeward.connectors.iceberg.source.position import snapshot_of
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.request import Plan
from lakeward.operations.restore import continuation, history
from lakeward.operations.restore import text as told
from lakeward.operations.restore.history import Late, LookUp, Unknown
from lakeward.operations.stream import spec_of
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import count, listed
from lakeward.quality.ranges.metadata import BRANCH
from lakeward.registry import batches, generations, maintenance, streams, verifications
from lakeward.registry.generations import Generation
from lakeward.tables.guard import readers

if TYPE_CHECKING:
    from pyiceberg.table import Table

WORD = "restore"


@dataclass(frozen=True)
class Back:
    """One position that goes back.

    Attributes:
        before: as it is; `position`: as it will be, None: it goes.
        kept: what of the stream runs; None: it is retired, or a backfill.
        again: whether records of it land again, under a new checkpoint.
    """

    stream: str
    before: Position
    position: Position | None
    kept: Generation | None = None
    again: bool = False


@dataclass(frozen=True)
class Marker:
    """Of a restore whose commit is done: stream -> the checkpoint it must not go on with."""

    to: int
    at: str
    checkpoints: Mapping[str, str]
    data: Mapping[str, Any]

    def text(self) -> str:
        return json.dumps(self.__dict__, sort_keys=True)


@dataclass(frozen=True)
class RestorePlan(Plan):
    """What would be done.

    Attributes:
        loaded: the table as it was looked at.
        backs: the positions that go back.
        verified: where `verified` will stand; None: nowhere, until the next quality run makes it again.
        marker: of an earlier run that took the table back and was killed; the streams still need their checkpoints.
    """

    loaded: Table = field(kw_only=True, repr=False)
    to: int = field(kw_only=True)
    backs: tuple[Back, ...] = field(default=(), kw_only=True)
    verified: int | None = field(default=None, kw_only=True)
    marker: Marker | None = field(default=None, kw_only=True)


class NotRecorded(Refused):
    """The registry has not heard of the newest batches yet."""


def load(context: Context, name: str) -> Table:
    """The table.

    Raises:
        SpecError: there is none, or it is not one of Iceberg.
    """
    try:
        return sink_position.lake_of(context.runtime).load_table(name)
    except (NoSuchTableError, ValueError):
        raise SpecError(
            f"There is no Iceberg table {name!r}",
            why="tables of Delta are not restored by Lakeward yet",
            next="lakeward tables health",
            code="LW-2063",
        ) from None


def plan(context: Context, name: str, to: int, *, settled: bool = False) -> RestorePlan:
    """Look at everything, touch nothing.

    Args:
        settled: no stream writes it any more, so every batch must be accounted for.

    Raises:
        NotRecorded: not yet.
        Refused: it cannot be done as things are.
        SpecError: there is no such table.
        DependencyDown: a broker or the registry does not answer.
    """
    table = load(context, name)
    rollback.movable(table.catalog, name)
    known = {each.snapshot_id: link_of(each) for each in table.metadata.snapshots}
    head = table.metadata.current_snapshot_id
    main = history.chain(head, known.get)
    target = _target(table, name, to, known, main)
    with context.connect() as connection:
        not_held(connection, name)
        running = writers(connection, name)
        for stream, kept in running.items():
            continuation.exact(name, stream, spec_of(kept))
        backs = tuple(
            found
            for stream, at in sorted(position.of_properties(table.properties, name).items())
            if (found := _back(context, connection, name, stream, at, target, known.get, running, settled)) is not None
        )
        verified = _verified(connection, table, name, target, known.get)
        read_past = _read_past(connection, name, target, known.get)
    lines, of_streams = _of_streams(backs)
    gone = main[: next(index for index, each in enumerate(main) if each.snapshot == to)]
    _no_act(table, name, gone)
    strangers, strange = told.of_nobody(table, gone, set(position.streams_of(table.properties)))
    lines += strange
    if read_past:
        lines.append(f"read further than that by {listed(read_past)}: what they landed of it stays in their tables")
    held = table.metadata.refs.get(BRANCH)
    if held is not None and held.snapshot_id != verified:
        where = "goes until the next quality run" if verified is None else f"goes back to snapshot {verified}"
        lines.append(f"branch `{BRANCH}` {where}")
    before, after = told.records(table, head), told.records(table, to)
    data = {
        "from_snapshot": head, "to_snapshot": to, "commits": len(gone), "records_before": before,
        "records_after": after, "verified_snapshot": verified, "streams": of_streams, "of_nobody": strangers,
        "readers": read_past,
    }  # fmt: skip
    text = f"take {name} back from snapshot {head} to {to}: {count(len(gone), 'commit')}, {before:,} to {after:,} rows"
    key = {"to": to, "of_nobody": strangers, "end": {each["stream"]: each["end"] for each in of_streams}}
    of_table = tuple(sorted(running))
    there = head == to and not backs
    return RestorePlan(
        text, tuple(lines), data, json.dumps(key, sort_keys=True), holds=of_table, drains=of_table, leases=(name,),
        nothing=f"{name} stands at snapshot {to} already" if there else "", loaded=table, to=to, backs=backs,
        verified=verified,
    )  # fmt: skip


def _of_streams(backs: tuple[Back, ...]) -> tuple[list[str], list[dict[str, Any]]]:
    lines, found = [], []
    for each in backs:
        if each.position is None:
            lines.append(f"{each.stream}: {count(each.before.totals.landed, 'row')} go; run that backfill again")
            found.append({"stream": each.stream, "rows": each.before.totals.landed, "replayed": [], "end": None})
        elif each.again:
            data, words = told.of_stream(each.stream, each.before, each.position)
            lines += words
            found.append({**data, "end": each.position.end})
    return lines, found


def _target(table: Table, name: str, to: int, known: Mapping[int, Link], main: list[Link]) -> Link:
    """The snapshot, if main stands on it.

    Raises:
        Refused: it is expired, or main's history does not lead to it.
    """
    if any(each.snapshot == to for each in main):
        return known[to]
    newest = ", ".join(f"{each.snapshot} ({told.moment(table, each.snapshot)})" for each in main[:5]) or "none"
    if to not in known:
        why = f"it is expired, or never was one of its snapshots; main's newest: {newest}"
    else:
        why = f"it is no ancestor of main's head: on another branch, staged, or taken back before; main's: {newest}"
    raise Refused(
        f"Table {name} cannot be restored to snapshot {to}",
        why=why,
        next=f'look at its history: lakeward sql "FROM lake.{name}.history"',
        code="LW-2059",
    )


def _no_act(table: Table, name: str, gone: list[Link]) -> None:
    """Rows that a replay landed or a removal took out would be lost or twice: what quarantine says does not go back.

    Raises:
        Refused: one was published since.
    """
    acts = [each for each in gone if replay.is_act(each.attempt or each.wap_id or "")]
    if acts:
        newest = acts[0]
        raise Refused(
            f"Table {name} cannot be restored to before snapshot {newest.snapshot}",
            why=f"it moved rows from or to quarantine ({told.moment(table, newest.snapshot)}), and the "
            "quarantine would go on counting them as moved",
            next=f"restore to that snapshot or a later one: lakeward tables restore {name} --to {newest.snapshot}",
            code="LW-2060",
        )


def not_held(connection: Connection, name: str) -> None:
    """Raises:
    Refused: a person holds the table.
    """
    row = maintenance.all_tables(connection).get(name)
    if row is None or row.hold_until is None:
        return
    if row.hold_until > connection.execute(select(func.now())).scalar_one():
        raise Refused(
            f"Table {name} is held until {row.hold_until:%Y-%m-%d %H:%M} UTC",
            why="a person asked that nothing is done to it",
            next=f"lakeward tables unhold {name} --comment TEXT",
            code="LW-2061",
        )


def writers(connection: Connection, name: str) -> dict[str, Generation]:
    """Stream -> what of it runs, of all that write the table."""
    rows = streams.all_streams(connection)
    found = generations.of_streams(connection, {each.id: each.generation for each in rows})
    return {
        stream: each
        for stream, each in found.items()
        if ((each.spec.get("sink") or {}).get("iceberg") or {}).get("table") == name
    }


def _back(
    context: Context, connection: Connection, name: str, stream: str, at: Position, target: Link, look_up: LookUp,
    running: Mapping[str, Generation], settled: bool,
) -> Back | None:  # fmt: skip
    """How a position goes back; None: it stands at or below the snapshot, and stays."""
    if ancestry.walk(target.snapshot, look_up, at.snapshot, at.snapshot_seq).right:
        return None
    try:
        gone = history.batches_after(stream, at, target, look_up)
        if "@" in stream:  # a backfill's: no driver lands it, a person runs it again
            history.wholly_after(stream, target, look_up)
            return Back(stream, at, None)
        first = min((history.seq_of(each, stream) for each in gone), default=at.seq + 1)
        stood = history.stood(stream, at, gone, batches.since(connection, stream, first), settled=settled)
    except Unknown as error:
        kind = NotRecorded if isinstance(error, Late) else Refused
        raise kind(
            f"Table {name} cannot be restored to snapshot {target.snapshot}: stream {stream} cannot follow",
            why=f"where it stood then is not known: {error}",
            next=f"restore to a later snapshot, or make the table anew: lakeward streams rebuild {stream} --dry-run",
        ) from None
    kept = running.get(stream)
    row = streams.find(connection, stream)
    if kept is None and (row is None or row.removed_at is None):
        raise Refused(
            f"Table {name} cannot be restored: stream {stream} landed in it and cannot be stopped from here",
            why="to this registry it does not write that table",
            next="restore where it is deployed",
            code="LW-2062",
        )
    stands = {"snapshot": target.snapshot, "snapshot_seq": target.seq}
    if not stood.gone:  # it was moved while a later snapshot was the head, and landed nothing since
        return Back(stream, at, at.model_copy(update={**stands, "seq": at.seq + 1, "at": now()}), kept)
    end = {source: at.begin.get(source, NO_DATA) if text == NO_DATA else text for source, text in stood.end.items()}
    if kept is not None:
        end = continuation.offsets(context, name, stream, spec_of(kept), at, end)
    skips, skipped = sink_position.skipped(at, end)
    totals = stood.totals.model_copy(update={"skipped": skipped})
    moved = at.moved(WORD, context.author, end=end, skips=skips, totals=totals, complete_through=None, **stands)
    return Back(stream, at, moved, kept, again=True)


def _verified(connection: Connection, table: Table, name: str, target: Link, look_up: LookUp) -> int | None:
    """Where `verified` stands on the history that stays: where it is, or on the newest snapshot that was proved."""
    kept = [each.snapshot for each in history.chain(target.snapshot, look_up)]
    held = table.metadata.refs.get(BRANCH)
    if held is None or held.snapshot_id in kept:
        return None if held is None else held.snapshot_id
    proved = {row["to_snapshot"] for row in verifications.proofs(connection, name)}
    return next((each for each in kept if each in proved), None)


def _read_past(connection: Connection, name: str, target: Link, look_up: LookUp) -> list[str]:
    """Streams that read the table as it grows, and have read what goes."""
    kept = {each.snapshot for each in history.chain(target.snapshot, look_up)}
    return sorted(
        each.stream
        for each in readers.registered(connection).get(name, ())
        if each.at is not None and (at := snapshot_of(each.at)) is not None and at not in kept and look_up(at)
    )
