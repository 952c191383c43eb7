"""What a plan must respect, from the registry: snapshot pins, refusals, holds, and the history of maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from sqlalchemy import Connection

from lakeward.connectors.delta import log
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.text import word
from lakeward.registry import batches, generations, maintenance, streams, verifications
from lakeward.registry.maintenance import LedgerRow
from lakeward.spec.model.file_paths import folder_of
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.suite import POINTER_OF
from lakeward.spec.model.types import Duration
from lakeward.tables.facts import TableFacts, gc_disabled
from lakeward.tables.guard import locations, pins, readers
from lakeward.tables.guard.positions import OffMain, of_copies, off_main
from lakeward.tables.plan.advice import IntervalStream
from lakeward.tables.plan.cost import PRIORS, learn
from lakeward.tables.plan.model import History, Needs, SnapshotPin

LEDGER = 300  # newest actions of a table that are read
_LOST = (  # texts of Iceberg's errors after a concurrent commit, and of a partly failed rewrite
    "validationexception",
    "commitfailedexception",
    "found new",
    "missing required files",
    "conflict",
    "could not be rewritten",
    "delta_concurrent",
)
BATCHES = 200  # newest batches of a stream that are read for its longest batch


@dataclass(frozen=True)
class RegistryState:
    """The state of the registry that all tables of a run share.

    Attributes:
        tables: table -> its registry row.
        running: streams with desired state running that are not blocked.
        writers: table -> sink mode of the streams that write it; a mode that changes rows wins.
        checkpoints: folders of every known checkpoint.
        readers: table -> the streams that read it incrementally.
        feeds: table -> the running streams that land in it at an interval.
        folders: folders of files that streams read or land -> whose they are, as a clause.
    """

    tables: Mapping[str, maintenance.Table]
    running: frozenset[str]
    writers: Mapping[str, str]
    checkpoints: tuple[str, ...]
    readers: Mapping[str, tuple[readers.Reading, ...]] = field(default_factory=dict)
    feeds: Mapping[str, tuple[IntervalStream, ...]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


def read_registry(connection: Connection) -> RegistryState:
    """Read them from the registry."""
    latest = generations.latest(connection)
    running_streams = [
        stream for stream in streams.all_streams(connection) if stream.desired == "running" and not stream.blocked
    ]
    running = frozenset(each.id for each in running_streams)
    writers: dict[str, str] = {}
    feeds: dict[str, tuple[IntervalStream, ...]] = {}
    folders: dict[str, str] = {}
    for stream, generation in latest.items():
        named = attempt(f"folders of stream {stream}", partial(_folders, stream, generation.spec))
        if not isinstance(named, Failure):
            folders |= named
        written = attempt(f"sink of stream {stream}", partial(_written, generation.spec))
        if isinstance(written, Failure) or written is None:
            continue
        table, mode = written
        if writers.get(table, "append") == "append":
            writers[table] = mode
        feed = attempt(f"trigger of stream {stream}", partial(_feed, stream, generation.spec))
        if isinstance(feed, IntervalStream) and stream in running:
            feeds[table] = (*feeds.get(table, ()), feed)
    return RegistryState(
        tables=maintenance.all_tables(connection),
        running=running,
        writers=writers,
        checkpoints=tuple(sorted({each.checkpoint for each in latest.values()})),
        readers=readers.registered(connection),
        feeds=feeds,
        folders=folders,
    )


def _written(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """The lake's table that a stream writes, and its mode; None for another sink."""
    sinks = spec.get("sink") or {}
    sink = sinks.get("iceberg") or sinks.get("delta") or {}
    table = sink.get("table")
    return (table, sink.get("mode") or "append") if table else None


def _folders(stream: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The folders of files that a stream reads or lands -> whose they are, as a clause."""
    sources = [source.get("files") or {} for source in (spec.get("sources") or {}).values()]
    references = [{"path": each} for known in (spec.get("reference") or {}).values() for each in known.values()]
    sinks = [(spec.get("sink") or {}).get("files") or {}]
    found: dict[str, str] = {}
    for places, act in ((sources, "reads"), (references, "looks up"), (sinks, "lands")):
        for place in places:
            path = place.get("path")
            if isinstance(path, str) and (path.startswith("/") or ":/" in path):
                found[folder_of(path)] = f"files that stream {stream} {act}"
    return found


def _feed(stream: str, spec: Mapping[str, Any]) -> IntervalStream | None:
    every = (spec.get("trigger") or {}).get("every")
    if not every:
        return None
    fresh = (spec.get("limits") or {}).get("freshness") or str(Limits().freshness)
    return IntervalStream(stream, Duration(every).timedelta, Duration(fresh).timedelta)


def needs_of(
    connection: Connection,
    facts: TableFacts,
    around: RegistryState,
    now: datetime,
    *,
    has_suite: bool,
    roots: Iterable[str] = (),
    mine: Iterable[int] = (),
    min_file_age: timedelta = timedelta(),
    there: Callable[[str, str], bool] = lambda table, location: True,
) -> tuple[Needs, list[OffMain]]:
    """The needs of one table, and the positions that block its expiry.

    Args:
        connection: a transaction on the registry.
        facts: the table now.
        around: the state that all tables share.
        now: the moment ages are measured from.
        has_suite: whether the project has expectations for it.
        roots: further folders of checkpoints.
        mine: ids of unfinished actions of the caller.
        min_file_age: minimum age of files that a VACUUM deletes.
        there: whether a recorded table is still at its recorded location: it may be dropped, or have another name.
    """
    known = around.tables.get(facts.table)
    begun = [row for row in maintenance.unfinished_actions(connection, facts.table) if row["id"] not in set(mine)]
    held: list[SnapshotPin] = [
        pins.batches(longest_batch(connection, facts), now),
        *pins.staged(facts, now),
        *pins.publications(facts, around.running, now),
        *readers.pins(facts, around.readers.get(facts.table, ())),
        *pins.running_rewrites(facts, [row for row in begun if row["action"] == "compact"]),
    ]
    unverified = _unverified(connection, facts, now, has_suite=has_suite)
    if unverified is not None:
        held.append(unverified)
    problems = of_copies(connection, facts, off_main(facts, checked_positions(connection, facts.table)))
    refusals = [problem.sentence for problem in problems]
    if gc_disabled(facts.properties):
        refusals.append("gc.enabled is false: its files may belong to another table")
    if dangling := facts.dangling():
        refusals.append(dangling)
    if known is not None and known.expiry_hold:
        refusals.append(
            f'expiry is held: {known.expiry_hold} (lakeward tables unhold {word(facts.table)} --comment "the finding")'
        )
    others = {name: row.location for name, row in around.tables.items() if _near(name, row.location, facts, there)}
    intruder = locations.overlap(facts.table, facts.location, others, [*around.checkpoints, *roots], around.folders)
    of = facts.properties.get(POINTER_OF)
    shown = f"it is the pointer table of {of}, and its files belong to that table" if of else ""
    needs = Needs(
        clamps=tuple(held),
        refusals=tuple(refusals),
        hold_until=known.hold_until if known else None,
        forbidden=f"refused: {intruder or shown}" if intruder or shown else "",
        min_file_age=min_file_age,
    )
    return needs, problems


def _near(table: str, location: str | None, facts: TableFacts, there: Callable[[str, str], bool]) -> bool:
    """Whether another table is below or above the location of this one, now."""
    if location is None or table == facts.table:
        return False
    shares = locations.nested(location, facts.location) or locations.nested(facts.location, location)
    return shares and there(table, location)


def _unverified(connection: Connection, facts: TableFacts, now: datetime, *, has_suite: bool) -> SnapshotPin | None:
    """The pin of snapshots that no check has read, or that readers of verified rows open."""
    seen = has_suite or bool(verifications.newest(connection, facts.table, limit=1))
    if facts.format == "delta":
        return pins.unproven(facts, _proven(connection, facts), now) if seen else None
    proof = verifications.last_verified(connection, facts.table)
    return pins.unverified(facts, proof["verified_snapshot"] if proof else None, checked=seen)


def _proven(connection: Connection, facts: TableFacts) -> int | None:
    """The newest proven version of this very Delta table that is still on its line; None if there is none."""
    of = f"{facts.uuid}/"
    proofs = [row for row in verifications.proofs(connection, facts.table) if (row["to_commit"] or "").startswith(of)]
    for version in sorted((verifications.head_of(row) for row in proofs), reverse=True):
        if facts.snapshot_id is not None and log.walk(facts.delta_folder, facts.snapshot_id, version).right:
            return version
    return None


def longest_batch(connection: Connection, facts: TableFacts) -> float:
    """Seconds of the longest recent batch that streams landed in the table; 0 without any."""
    lengths = [
        float(row.duration_s or 0) for stream in facts.streams for row in batches.newest(connection, stream, BATCHES)
    ]
    return max(lengths, default=0.0)


def checked_positions(connection: Connection, table: str) -> dict[str, int]:
    """Stream -> the snapshot of its position that the newest expiry found on main."""
    for row in maintenance.newest_actions(connection, table, LEDGER):
        seen = (row["after"] or {}).get("positions")
        if row["action"] == "expire" and seen is not None:
            return {stream: int(snapshot) for stream, snapshot in seen.items()}
    return {}


def history_of(connection: Connection, table: str) -> History:
    """The history of maintenance of a table, from the ledger."""
    return history_from(maintenance.newest_actions(connection, table, LEDGER))


def history_from(rows: Sequence[LedgerRow]) -> History:
    """The history from the ledger's rows of one table, newest first."""
    done: dict[str, datetime] = {}
    failures: dict[str, tuple[int, datetime]] = {}
    finished: dict[str, datetime] = {}
    idle: dict[str, tuple[int, datetime]] = {}
    moved: set[str] = set()
    tried: dict[str, datetime] = {}
    contested: dict[str, tuple[int, datetime]] = {}
    landed: set[str] = set()
    for row in rows:
        action, at = str(row["action"]), row["finished_at"] or row["started_at"]
        # A lost race pauses only the contested partitions (see `contested`), not the others of the table.
        rests = lost_race(row) and not _final(row)
        if row["result"] == "done":
            done.setdefault(action, at)
            for partition in _final(row):
                finished.setdefault(partition, row["started_at"])
        elif row["result"] in ("failed", "timed_out") and action not in done and not rests:
            count, last = failures.get(action, (0, at))
            failures[action] = (count + 1, last)
        if row["result"] in ("failed", "timed_out") and (row["after"] or {}).get("files_taken"):
            for partition in _final(row):
                tried.setdefault(partition, row["started_at"])
        if row["result"] in ("done", "failed", "skipped") and action not in moved:
            if _changed_nothing(row):
                count, last = idle.get(action, (0, at))
                idle[action] = (count + 1, last)
            else:
                moved.add(action)
        if action == "compact":
            _race(row, at, contested, landed)
    paces = {action: learn(action, _amounts(action, rows)) for action in PRIORS}
    learned = {name: pace for name, pace in paces.items() if pace.runs}
    return History(done, failures, finished, idle, contested, tried, learned)


def _race(row: LedgerRow, at: datetime, contested: dict[str, tuple[int, datetime]], landed: set[str]) -> None:
    """Count a compaction for or against its partitions. A full disk or a dead process is not a lost race."""
    lost = lost_race(row)
    for partition in (row["before"] or {}).get("partitions") or [""]:
        if row["result"] == "done":
            landed.add(partition)
        elif lost and partition not in landed:
            count, last = contested.get(partition, (0, at))
            contested[partition] = (count + 1, last)


def lost_race(row: Mapping[str, Any]) -> bool:
    """Whether it is a compaction that failed because of concurrent commits."""
    found = any(text in str(row["why"]).lower() for text in _LOST)
    return row["action"] == "compact" and row["result"] == "failed" and found


def _changed_nothing(row: LedgerRow) -> bool:
    before, after = row["before"] or {}, row["after"]
    if after is None:
        return False
    if row["action"] in ("tags", "metadata"):
        return False  # their effect remains
    if row["action"] == "manifests":
        return bool(after.get("manifests", 0) >= before.get("manifests", 1))
    taken = {"compact": "files_taken", "deletes": "delete_files_taken"}.get(row["action"], "snapshots_expired")
    return bool(after.get(taken) == 0)


def _amounts(action: str, rows: Sequence[LedgerRow]) -> Iterator[tuple[float, float]]:
    """Amount and seconds of every successful run, newest first."""
    promised: Literal["promised_bytes", "promised_files"] = (
        "promised_bytes" if action == "compact" else "promised_files"
    )
    for row in rows:
        if row["action"] == action and row["result"] == "done":
            yield float((row["before"] or {}).get(promised) or 0), float(row["duration_s"] or 0)


def _final(row: LedgerRow) -> list[str]:
    return [str(each) for each in (row["before"] or {}).get("final", [])]
