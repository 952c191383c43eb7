"""Who needs a table's history: the clamps under every expiry."""

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

STAGED_FLOOR = timedelta(seconds=60)  # no batch is believed to stage and publish in less
PROVEN_LIMIT = timedelta(days=30)  # a proven version of a Delta table pins its files, and the log, no longer than this
REWRITE = timedelta(hours=1)  # a rewrite says of files that they are out when it begins, and commits that much later
PIN_LIMIT = timedelta(hours=72)  # a stream pins history no longer than this; exactness does not depend on it


def batches(longest_batch_s: float, now: datetime) -> SnapshotPin:
    """A staged snapshot belongs to nobody's history until it is published: nothing this young may go."""
    length = max(STAGED_FLOOR, timedelta(seconds=2 * longest_batch_s))
    return SnapshotPin("staged batches", f"twice the longest batch is {span(length)}", now - length)


def staged(facts: TableFacts, now: datetime) -> list[SnapshotPin]:
    """The batch each stream has staged and not published yet, its very first too, whatever its age up to the pin
    limit."""
    known, found = _positions(facts), []
    for snapshot in facts.snapshots:
        wap = snapshot.summary.get(WAP_ID, "")
        stream = wap.partition("/")[0]
        if stream in facts.streams and stream not in known:
            continue  # its position cannot be read: guard.positions refuses the expiry
        landed = known[stream].seq if stream in known else 0
        if seq_of(wap, stream) == landed + 1 and now - snapshot.at <= PIN_LIMIT:
            found.append(SnapshotPin(f"stream {stream}", "it has staged a batch and not published it", snapshot.at))
    return found


def publications(facts: TableFacts, running: Collection[str], now: datetime) -> list[SnapshotPin]:
    """The newest publication of every running stream, for a bounded time."""
    known = facts.by_id()
    found = []
    for stream, held in _positions(facts).items():
        snapshot = known.get(held.snapshot) if held.snapshot is not None else None
        if stream in running and snapshot is not None and now - snapshot.at <= PIN_LIMIT:
            found.append(SnapshotPin(f"stream {stream}", "its newest publication", snapshot.at))
    return found


def unproven(facts: TableFacts, proven: int | None, now: datetime) -> SnapshotPin | None:
    """The versions of a Delta table, one with a suite, from the proven one on: what readers of it and the next check
    open. For a bounded time: a table that is held for longer is checked as a whole, and its log does not grow for ever.

    Args:
        facts: the table.
        proven: the newest proven version on the table's line; None if none is.
        now: the moment ages are measured from.
    """
    on = next((each for each in facts.snapshots if each.id == proven), None)
    oldest = min(facts.snapshots, key=lambda each: each.id, default=None)
    kept = on or oldest
    if kept is None or now - kept.at > PROVEN_LIMIT:
        return None
    why = f"verified stands on version {on.id}" if on is not None else "no version left in its log is proven"
    return SnapshotPin("quality", why, kept.at - REWRITE)


def unverified(facts: TableFacts, last_verified: int | None, *, checked: bool) -> SnapshotPin | None:
    """The snapshots no check has seen yet.

    Args:
        facts: the table.
        last_verified: the snapshot `verified` stood on after the last run that moved it; None if none did.
        checked: whether the table has a suite or was ever checked.
    """
    ref = facts.refs.get(VERIFIED)
    stands = ref.snapshot_id if ref is not None else last_verified
    chain = facts.main()
    if not chain or (stands is None and not checked):
        return None
    on = next((snapshot for snapshot in chain if snapshot.id == stands), None)
    if on is not None:
        return SnapshotPin("quality", f"verified stands on snapshot {on.id}", on.at)
    oldest = chain[-1]
    why = "no check has passed yet" if stands is None else f"verified snapshot {stands} is not on main"
    return SnapshotPin("quality", why, oldest.at)


def running_rewrites(facts: TableFacts, unfinished: Sequence[Mapping[str, Any]]) -> list[SnapshotPin]:
    """The base of every rewrite the ledger says is under way."""
    known = facts.by_id()
    bases = [known.get((row.get("before") or {}).get("snapshot_id")) for row in unfinished]  # type: ignore[arg-type]  # None finds nothing
    return [SnapshotPin("maintenance", "the base of a running rewrite", base.at) for base in bases if base is not None]


def _positions(facts: TableFacts) -> dict[str, position.Position]:
    found = {}
    for stream in facts.streams:
        try:
            found[stream] = position.parse(facts.properties[position.key(stream)], stream, facts.table)
        except Blocked:
            continue  # guard.positions refuses the expiry because of it
    return found
