"""Where a stream stood when a snapshot was its table's head. Pure: snapshots and recorded batches decide.

Properties do not go back with a table, and the metadata files that had the old position are removed after a hundred
commits. What is there is the snapshots, each with the seq it was published under, and the registry's record of each
batch. The record is a copy, so it is believed only where it is whole: a row for every batch that goes, each beginning
where the one before ended, and the last ending exactly where the table's position does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.commit_protocol import ancestry, ranges
from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import Position, Totals

LookUp = Callable[[int], Link | None]


class Unknown(Exception):
    """Where the stream stood cannot be told; the text says why, as a clause."""


class Late(Unknown):
    """The newest batches are not recorded yet; drivers tell of a batch some seconds after it landed."""


@dataclass(frozen=True)
class Stood:
    """A stream at the snapshot.

    Attributes:
        end: source name -> offset up to which (exclusive) was landed then.
        totals: records until then, but for `skipped`, which is counted from the skips.
        gone: the snapshots of its batches that go, newest first; none: nothing of it goes.
    """

    end: Mapping[str, str]
    totals: Totals
    gone: tuple[int, ...] = ()


def chain(head: int | None, look_up: LookUp) -> list[Link]:
    """A snapshot and its parents as far as the metadata has them, newest first."""
    found: list[Link] = []
    current = look_up(head) if head is not None else None
    while current is not None:
        found.append(current)
        current = look_up(current.parent) if current.parent is not None else None
    return found


def seq_of(link: Link, stream: str) -> int:
    """The seq a snapshot published of a stream; 0 for another's."""
    return ancestry.seq_of(link.attempt or link.wap_id or "", stream) or 0


def batches_after(stream: str, position: Position, target: Link, look_up: LookUp) -> list[Link]:
    """The snapshots by which a stream landed batches since the target, newest first, on main or off it.

    Raises:
        Unknown: a snapshot between is expired.
    """
    if ancestry.walk(target.snapshot, look_up, position.snapshot, position.snapshot_seq).right:
        return []
    kept = {each.snapshot for each in chain(target.snapshot, look_up)}
    found: list[Link] = []
    current = look_up(position.snapshot) if position.snapshot is not None else None
    while current is not None and current.snapshot not in kept:
        if seq_of(current, stream):
            found.append(current)
        current = look_up(current.parent) if current.parent is not None else None
    if current is None:
        raise Unknown("snapshots between its position and that snapshot are expired")
    return found


def wholly_after(stream: str, target: Link, look_up: LookUp) -> None:
    """Raises:
    Unknown: a batch of it is at or below the target.
    """
    if any(seq_of(each, stream) for each in chain(target.snapshot, look_up)):
        raise Unknown("a part of it landed before that snapshot, and a part after it")


def stood(
    stream: str, position: Position, gone: Sequence[Link], rows: Sequence[Mapping[str, Any]], *, settled: bool = True
) -> Stood:
    """Where it stood before these batches.

    Args:
        position: where it is now.
        gone: from `batches_after`.
        rows: the registry's batches from the lowest seq of these on, by seq.
        settled: the stream does not run: also the newest batches must be recorded. Else it is a look, near enough.

    Raises:
        Late: they are not yet.
        Unknown: the record is not whole, or the position was moved since by something else than batches.
    """
    if not gone:
        return Stood(position.end, position.totals)
    seqs = {seq_of(link, stream): link for link in gone}
    # A batch that was given up published nothing, and its records are read again like the others'.
    used = [row for row in rows if row["seq"] in seqs or (row["skipped"] and row["snapshot_id"] is None)]
    missing = sorted(set(seqs) - {row["seq"] for row in used})
    newest = max((row["seq"] for row in used), default=0)
    if missing and (settled or missing[0] < newest or not newest):
        kind = Unknown if missing[0] < newest else Late
        raise kind(f"the registry has no record of its batch seq {', '.join(str(each) for each in missing[:5])}")
    at = dict(used[0]["start_offsets"] or {})
    end = at
    for row in used:
        apart = ranges.differences(end, row["start_offsets"] or {})
        if any(each.landed is not None for each in apart):  # a partition that came meanwhile has no end before
            raise Unknown(f"its position was moved before seq {row['seq']}: {ranges.in_words(apart)}")
        end = row["end_offsets"] or {}
    apart = [] if missing else ranges.differences(end, position.end)
    if any(each.landed is not None for each in apart):
        raise Unknown(f"its position was moved after its last batch: {ranges.in_words(apart)}")
    totals = position.totals
    for row in used:
        totals = _less(totals, row, seqs.get(row["seq"]))
    for seq in missing:
        totals = totals.model_copy(update={"landed": totals.landed - seqs[seq].added})
    return Stood(at, totals, tuple(link.snapshot for link in gone))


def _less(totals: Totals, row: Mapping[str, Any], link: Link | None) -> Totals:
    """The totals without one batch. What a batch had landed that was found landed already, its snapshot tells."""
    if link is None:
        return totals
    landed = row["landed"] if row["landed"] is not None else link.added
    aside = row["quarantined"] or 0
    consumed = row["consumed"] if row["consumed"] is not None else landed + aside
    filtered = row["filtered"] if row["filtered"] is not None else max(0, consumed - landed - aside)
    return totals.model_copy(
        update={
            "consumed": totals.consumed - consumed,
            "landed": totals.landed - landed,
            "quarantined": totals.quarantined - aside,
            "filtered": totals.filtered - filtered,
        }
    )
