"""Offsets of the batches in a range, and which of its commits are batches. Pure.

A batch is recognized by the id its snapshot was staged under, `<stream>/<seq>/<nonce>`; its offsets come from the
registry. Consecutive seqs form one stretch: all records between its first start and its last end must be present, also
between batches. A stretch ends where a seq belongs to no batch: the stream was reset there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka.position import parse
from lakeward.quality.ranges.range import Kind, Range, Read
from lakeward.quality.ranges.snapshot_chain import Snapshot

Partition = tuple[str, int]
"""(topic, partition)"""


class Uncountable(Exception):
    """Raised with a sentence when the records cannot be counted: neither a pass nor a failure."""


@dataclass(frozen=True)
class Landings:
    """A stream in the registry: its batches from a seq on, oldest first, and its newest spec."""

    batches: Sequence[Mapping[str, Any]]
    spec: Mapping[str, Any] | None


@dataclass(frozen=True)
class Stretch:
    """Consecutive batches of one stream.

    Attributes:
        moved: partition -> its offsets, first (inclusive) to last (exclusive).
        skipped: records that a person skipped (`skip-batch`).
        consumed, filtered: sums over the batches; None if one has no count.
        holes: offsets of the batches without a record: transaction markers, aborted and compacted records. Offsets
            between two batches are none: no batch has read them.
    """

    stream: str
    from_seq: int
    to_seq: int
    moved: Mapping[Partition, tuple[int, int]]
    skipped: int
    consumed: int | None
    filtered: int | None
    holes: int

    @property
    def offsets(self) -> int:
        """The number of offsets it covers."""
        return sum(to - first for first, to in self.moved.values())


def batch_of(snapshot: Snapshot) -> tuple[str, int] | None:
    """Stream and seq of a snapshot that is a batch; None for any other commit."""
    parts = (snapshot.wap_id or "").split("/")
    return (parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdigit() else None


def commits(found: Range) -> tuple[Snapshot, ...]:
    """The range's commits that may add rows, oldest first.

    Raises:
        Uncountable: the rows of the range's batches cannot be separated from others.
    """
    rewrites = [snapshot for snapshot in found.snapshots if snapshot.operation not in ("append", "replace")]
    if rewrites:
        raise Uncountable(
            f"snapshot {rewrites[0].id} is {_an(rewrites[0].operation)}: it may have removed rows of batches"
        )
    whole = found.base is None and bool(found.snapshots) and found.snapshots[0].parent is None
    if found.kind is Kind.TABLE and (found.cut or not whole):
        raise Uncountable("the batches of the range cannot be separated from older ones: some snapshots are expired")
    return tuple(snapshot for snapshot in found.snapshots if snapshot.operation == "append")


def parts(found: Range, theirs: Sequence[Snapshot]) -> list[Read]:
    """The range without foreign commits, as the smallest number of reads."""
    reads, start = [], found.base.snapshot if found.base else None
    foreign = {each.id for each in theirs}
    previous = start
    for snapshot in found.snapshots:
        if snapshot.id in foreign:
            if previous is not None and previous != start:
                reads.append(Read(start, previous))
            start = snapshot.id
        previous = snapshot.id
    if previous is not None and previous != start:
        reads.append(Read(start, previous))
    return reads


def stretches(stream: str, seqs: Sequence[int], known: Sequence[Mapping[str, Any]]) -> list[Stretch]:
    """The stretches of a stream's batches.

    Args:
        seqs: the seqs of the range's snapshots.
        known: the registry's batches, from the one before the first of `seqs`.

    Raises:
        Uncountable: the first or last batch of a stretch is not in the registry, or the offsets are not Kafka's.
    """
    rows = {row["seq"]: row for row in known if row["seq"] is not None}
    given_up = {seq for seq, row in rows.items() if row["skipped"] and min(seqs) < seq < max(seqs)}
    runs: list[list[int]] = []
    for seq in sorted({*seqs, *given_up}):
        if runs and runs[-1][-1] == seq - 1:
            runs[-1].append(seq)
        else:
            runs.append([seq])
    return [_stretch(stream, run, rows) for run in runs]


def _stretch(stream: str, run: Sequence[int], rows: Mapping[int, Mapping[str, Any]]) -> Stretch:
    for seq in (run[0], run[-1]):
        if seq not in rows:
            raise Uncountable(f"the registry has no offsets of batch seq {seq} of stream {stream}")
    batches = [rows[seq] for seq in run if seq in rows]
    start: dict[Partition, int] = {}
    end: dict[Partition, int] = {}
    for row in batches:
        for part, at in _offsets(stream, row["start_offsets"]):
            start.setdefault(part, at)
        for part, at in _offsets(stream, row["end_offsets"]):
            start.setdefault(part, 0)  # a new partition of the topic is read from its beginning
            end[part] = at
    before = rows.get(run[0] - 1)
    if before is not None:  # records between the two batches must not be lost between two runs
        start.update(_offsets(stream, before["end_offsets"]))
    moved = {part: (start[part], to) for part, to in end.items() if to > start[part]}
    complete = len(batches) == len(run)
    return Stretch(
        stream,
        run[0],
        run[-1],
        moved,
        skipped=sum(row["skipped"] or 0 for row in batches),
        consumed=_sum(batches, "consumed") if complete else None,
        filtered=_sum(batches, "filtered") if complete else None,
        holes=sum(_holes(stream, row) for row in batches) if complete else 0,
    )


def _holes(stream: str, row: Mapping[str, Any]) -> int:
    """The offsets of one batch that held no record; 0 if its records were not counted."""
    if row["consumed"] is None:
        return 0
    first = dict(_offsets(stream, row["start_offsets"]))
    read = sum(max(0, at - first.get(part, 0)) for part, at in _offsets(stream, row["end_offsets"]))
    return max(0, read - (row["skipped"] or 0) - int(row["consumed"]))


def _sum(batches: Sequence[Mapping[str, Any]], name: str) -> int | None:
    found = [row[name] for row in batches]
    return None if None in found else sum(found)


def _offsets(stream: str, texts: Mapping[str, str] | None) -> Iterator[tuple[Partition, int]]:
    for text in (texts or {}).values():
        if text == NO_DATA:
            continue
        try:
            read = parse(text)
        except (ValueError, AttributeError, TypeError):
            raise Uncountable(f"stream {stream} does not read from Kafka: its positions are not numbers") from None
        for topic, offsets in read.items():
            yield from (((topic, number), at) for number, at in offsets.items())


def _an(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
