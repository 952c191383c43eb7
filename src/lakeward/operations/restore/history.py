"""Position of a stream at an earlier snapshot, from snapshots and recorded batches. Pure.

Table properties are not rolled back with a table, and the metadata files with the old position are removed after a
hundred commits. What remains is the snapshots, each with the seq it was published under, and the registry's record of
each batch. The record is a copy, so it is used only if it is complete: a row for every batch that is removed, each
beginning where the previous one ended, and the last ending exactly at the table's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeward.connectors.commit_protocol import ancestry, ranges
from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.registry.batches import Batch

LookUp = Callable[[int], Link | None]


class Unknown(Exception):
    """The earlier position is unknown; the text is the reason, as a clause."""


class NotYetRecorded(Unknown):
    """The newest batches are not recorded yet; drivers record a batch some seconds after it landed."""


@dataclass(frozen=True)
class EarlierState:
    """State of a stream at the snapshot.

    Attributes:
        end: source name -> offset (exclusive) up to which records had landed.
        totals: totals at that time; `skipped` is counted from the skips instead.
        removed: snapshots of its removed batches, newest first; empty if none is removed.
    """

    end: Mapping[str, str]
    totals: Totals
    removed: tuple[int, ...] = ()


def ancestors(head: int | None, look_up: LookUp) -> Iterator[Link]:
    """A snapshot and its known ancestors, newest first; each is looked up when it is asked for."""
    current = look_up(head) if head is not None else None
    while current is not None:
        yield current
        current = look_up(current.parent) if current.parent is not None else None


def chain(head: int | None, look_up: LookUp, until: int | None = None) -> list[Link]:
    """A snapshot and its known ancestors, newest first, down to the snapshot `until` if it is one of them."""
    links: list[Link] = []
    for link in ancestors(head, look_up):
        links.append(link)
        if link.snapshot == until:
            break
    return links


def seq_of(link: Link, stream: str) -> int:
    """The seq that a snapshot published for a stream; 0 if it is of another writer."""
    return ancestry.seq_of(link.attempt or link.wap_id or "", stream) or 0


def batches_after(stream: str, position: Position, target: Link, look_up: LookUp) -> list[Link]:
    """The snapshots of a stream's batches since the target, newest first, on main or not.

    Raises:
        Unknown: a snapshot in between has expired.
    """
    if ancestry.walk(target.snapshot, look_up, position.snapshot, position.snapshot_seq).right:
        return []
    remaining: set[int] = set()
    links: list[Link] = []
    current = look_up(position.snapshot) if position.snapshot is not None else None
    while current is not None and current.snapshot != target.snapshot:
        if current.seq <= target.seq:  # a younger one is no ancestor of the target, whose history may be long
            remaining = remaining or {link.snapshot for link in ancestors(target.snapshot, look_up)}
            if current.snapshot in remaining:
                break
        if seq_of(current, stream):
            links.append(current)
        current = look_up(current.parent) if current.parent is not None else None
    if current is None:
        raise Unknown("snapshots between its position and that snapshot have expired")
    return links


def wholly_after(stream: str, target: Link, look_up: LookUp) -> None:
    """Check that all batches of a writer are after the target.

    Raises:
        Unknown: one is at or before the target.
    """
    if any(seq_of(link, stream) for link in chain(target.snapshot, look_up)):
        raise Unknown("it landed partly before and partly after that snapshot")


def earlier_state(
    stream: str, position: Position, removed: Sequence[Link], rows: Sequence[Batch], *, settled: bool = True
) -> EarlierState:
    """State of the stream before these batches.

    Args:
        position: the present position.
        removed: from `batches_after`.
        rows: the registry's batches from the lowest of these seqs on, by seq.
        settled: the stream is stopped, so the newest batches must be recorded too. Otherwise the result is approximate.

    Raises:
        NotYetRecorded: the newest batches are not recorded yet.
        Unknown: the record is incomplete, or the position was moved by something other than batches.
    """
    if not removed:
        return EarlierState(position.end, position.totals)
    seqs = {seq_of(link, stream): link for link in removed}
    # A skipped batch published nothing, and its records are read again like the others'.
    used = [row for row in rows if row.seq in seqs or (row.skipped and row.snapshot_id is None)]
    missing = sorted(set(seqs) - {row.seq for row in used if row.seq is not None})
    newest = max((row.seq or 0 for row in used), default=0)
    if missing and (settled or missing[0] < newest or not newest):
        kind = Unknown if missing[0] < newest else NotYetRecorded
        raise kind(f"the registry has no record of its batch seq {', '.join(str(seq) for seq in missing[:5])}")
    at = dict(used[0].start_offsets or {})
    end: Mapping[str, str] = at
    for row in used:
        apart = ranges.differences(end, row.start_offsets or {})
        if any(difference.landed is not None for difference in apart):  # a new partition has no earlier end
            raise Unknown(f"its position was moved before seq {row.seq}: {ranges.in_words(apart)}")
        end = row.end_offsets or {}
    apart = [] if missing else ranges.differences(end, position.end)
    if any(difference.landed is not None for difference in apart):
        raise Unknown(f"its position was moved after its last batch: {ranges.in_words(apart)}")
    totals = position.totals
    for row in used:
        totals = _without(totals, row, seqs.get(row.seq) if row.seq is not None else None)
    for seq in missing:
        totals = totals.model_copy(update={"landed": totals.landed - seqs[seq].added})
    return EarlierState(at, totals, tuple(link.snapshot for link in removed))


def _without(totals: Totals, row: Batch, link: Link | None) -> Totals:
    """The totals without one batch. For a batch that was found landed already, its snapshot has the row count."""
    if link is None:
        return totals
    landed = row.landed if row.landed is not None else link.added
    quarantined = row.quarantined or 0
    consumed = row.consumed if row.consumed is not None else landed + quarantined
    filtered = row.filtered if row.filtered is not None else max(0, consumed - landed - quarantined)
    return totals.model_copy(
        update={
            "consumed": totals.consumed - consumed,
            "landed": totals.landed - landed,
            "quarantined": totals.quarantined - quarantined,
            "filtered": totals.filtered - filtered,
        }
    )
