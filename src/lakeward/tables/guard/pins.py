"""Snapshot pins: what snapshot expiry must keep for streams, readers, checks and running rewrites."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.ancestry import seq_of
from lakeward.platform.errors import Blocked
from lakeward.platform.text import span
from lakeward.tables.facts import VERIFIED, WAP_ID, TableFacts
from lakeward.tables.plan.model import SnapshotPin

STAGED_FLOOR = timedelta(seconds=60)  # minimum assumed time between stage and publish
PROVEN_LIMIT = timedelta(days=30)  # maximum age of a pin by a proven Delta version, on its files and the log
REWRITE = timedelta(hours=1)  # a rewrite stamps removed files at its start, and commits up to this much later
PIN_LIMIT = timedelta(hours=72)  # maximum age of a pin by a stream; exactly-once does not depend on it


def batches(longest_batch_s: float, now: datetime) -> SnapshotPin:
    """Pins young snapshots: a staged snapshot belongs to no branch until it is published."""
    length = max(STAGED_FLOOR, timedelta(seconds=2 * longest_batch_s))
    return SnapshotPin("staged batches", f"twice the longest batch is {span(length)}", now - length, "batch")


def staged(facts: TableFacts, now: datetime) -> list[SnapshotPin]:
    """Pins the batch that each stream has staged and not published, including its first, up to the pin limit."""
    known, found = _positions(facts), []
    for snapshot in facts.snapshots:
        wap = snapshot.summary.get(WAP_ID, "")
        stream = wap.partition("/")[0]
        if stream in facts.streams and stream not in known:
            continue  # its position cannot be read: guard.positions refuses the expiry
        landed = known[stream].seq if stream in known else 0
        if seq_of(wap, stream) == landed + 1 and now - snapshot.at <= PIN_LIMIT:
            why = "it has staged a batch and not published it"
            found.append(SnapshotPin(f"stream {stream}", why, snapshot.at, stream=stream))
    return found


def publications(facts: TableFacts, running: Collection[str], now: datetime) -> list[SnapshotPin]:
    """Pins the newest publication of every running stream, for a limited time."""
    known = facts.by_id()
    found = []
    for stream, held in _positions(facts).items():
        snapshot = known.get(held.snapshot) if held.snapshot is not None else None
        if stream in running and snapshot is not None and now - snapshot.at <= PIN_LIMIT:
            found.append(SnapshotPin(f"stream {stream}", "its newest publication", snapshot.at, stream=stream))
    return found


def unproven(facts: TableFacts, proven: int | None, now: datetime) -> SnapshotPin | None:
    """Pins the versions of a Delta table with a suite from the proven one on: readers and the next check open them. For
    a limited time: a table that is held longer is checked as a whole, and its log does not grow without bound.

    Args:
        facts: the table.
        proven: the newest proven version on the table's line; None if none is.
        now: the moment ages are measured from.
    """
    on = next((snapshot for snapshot in facts.snapshots if snapshot.id == proven), None)
    oldest = min(facts.snapshots, key=lambda snapshot: snapshot.id, default=None)
    base = on or oldest
    if base is None or now - base.at > PROVEN_LIMIT:
        return None
    why = f"verified is at version {on.id}" if on is not None else "no version in its log is proven"
    return SnapshotPin("quality", why, base.at - REWRITE, "check")


def unverified(facts: TableFacts, last_verified: int | None, *, checked: bool) -> SnapshotPin | None:
    """Pins the snapshots that are not checked yet.

    Args:
        facts: the table.
        last_verified: the verified snapshot after the last run that moved it; None if none did.
        checked: whether the table has a suite or was ever checked.
    """
    ref = facts.refs.get(VERIFIED)
    verified = ref.snapshot_id if ref is not None else last_verified
    chain = facts.main()
    if not chain or (verified is None and not checked):
        return None
    on = next((snapshot for snapshot in chain if snapshot.id == verified), None)
    if on is not None:
        return SnapshotPin("quality", f"verified is at snapshot {on.id}", on.at, "check")
    oldest = chain[-1]
    why = "no check has passed yet" if verified is None else f"verified snapshot {verified} is not on main"
    return SnapshotPin("quality", why, oldest.at, "check")


def running_rewrites(facts: TableFacts, unfinished: Sequence[Mapping[str, Any]]) -> list[SnapshotPin]:
    """Pins the base snapshot of every running rewrite in the ledger."""
    known = facts.by_id()
    bases = [known.get((row.get("before") or {}).get("snapshot_id")) for row in unfinished]  # type: ignore[arg-type]  # None finds nothing
    why = "the base of a running rewrite"
    return [SnapshotPin("maintenance", why, base.at, "maintenance") for base in bases if base is not None]


def _positions(facts: TableFacts) -> dict[str, position.Position]:
    found = {}
    for stream in facts.streams:
        try:
            found[stream] = position.parse(
                facts.properties[position.key(stream)], stream, facts.table, position.KeptIn.of_format(facts.format)
            )
        except Blocked:
            continue  # guard.positions refuses the expiry because of it
    return found
