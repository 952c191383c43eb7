"""The first bad snapshot: the oldest snapshot with which a failed check fails. Pure; the probing function is a
parameter.

Row-by-row checks without `mostly` only change from good to bad as rows are appended, so a binary search finds the first
bad snapshot in log2(n) reads. Where a row is judged alone, rows found good are not read again: all reads together take
about as many rows as the range has. With `mostly` a later good batch can hide an earlier bad one: such checks are
probed snapshot by snapshot, up to a limit. Checks of aggregates (a mean, a row count) belong to no snapshot.

With row lineage (format v3) each row has the sequence number of the commit that last wrote it, also after compaction
and expiry. Where rows are judged alone, one query for the oldest failing row replaces the binary search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from lakeward.quality.ranges.range import Kind, Range, Read, changes_rows
from lakeward.quality.ranges.snapshot_chain import History, Snapshot

MOST_SINGLE = 16  # snapshots probed one by one
ALONE = frozenset(
    f"expect_{each}"
    for each in (
        "column_values_to_not_be_null", "column_values_to_be_null", "column_values_to_be_between",
        "column_values_to_be_in_set", "column_values_to_not_be_in_set", "column_values_to_match_regex",
        "column_values_to_not_match_regex", "column_values_to_match_regex_list",
        "column_values_to_not_match_regex_list", "column_value_lengths_to_be_between", "column_value_lengths_to_equal",
        "column_pair_values_a_to_be_greater_than_b", "column_pair_values_to_be_equal", "multicolumn_sum_to_equal",
        "select_column_values_to_be_unique_within_record",
    )
)  # fmt: skip
"""Expectations that judge a row by its own values. Others may need earlier rows: a duplicate is one of two."""


@dataclass(frozen=True)
class Failed:
    """The ids of failed row-by-row checks on the increment.

    Attributes:
        alone: every row must hold, judged by itself.
        strict: every row must hold; other rows may be needed to judge it.
        tolerant: a share of the rows may fail (`mostly`).
    """

    alone: tuple[str, ...] = ()
    strict: tuple[str, ...] = ()
    tolerant: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreviousFindings:
    """The findings of the newest recorded run.

    Attributes:
        base, first: the proven snapshot its range began after; the first bad one.
        failed: the checks that failed.
    """

    base: int | None
    first: int | None
    failed: Set[str]


def known_before(found: Range, failing: Set[str], before: PreviousFindings | None) -> int | None:
    """The first bad snapshot of the newest run, if the same checks fail on the same range with more appends. None when
    it has to be searched for.
    """
    if before is None or found.base is None or found.kind is not Kind.INCREMENT:
        return None
    same = before.base == found.base.snapshot and before.failed == failing
    return before.first if same and any(snapshot.id == before.first for snapshot in found.snapshots) else None


Probe = Callable[[Read, Sequence[str]], bool | None]
"""Whether any of the checks fails on the rows of the read; None when it could not be computed."""


@dataclass(frozen=True)
class OldestFailingRow:
    """The oldest row that fails `Failed.alone`, by row lineage.

    Attributes:
        sequence: the least sequence number of a failing row; None if unknown.
        snapshots: sequence number -> snapshot, as far as recorded; also of expired ones.
    """

    sequence: int | None = None
    snapshots: Mapping[int, int] = field(default_factory=dict)

    @property
    def snapshot(self) -> int | None:
        """The snapshot that wrote the oldest failing row."""
        return self.snapshots.get(self.sequence) if self.sequence is not None else None


def remembered(history: History, heads: Sequence[tuple[int | None, int, int]]) -> dict[int, int]:
    """Sequence number -> snapshot of this table, also of snapshots that are expired.

    Args:
        history: its metadata.
        heads: base, head and the head's sequence number of recorded runs, newest first. An earlier table may have had
            the name: a run counts if its base or its head is known to be of this table.
    """
    ours = {name for snapshot in history.snapshots.values() for name in (snapshot.id, snapshot.parent)} - {None}
    found = {snapshot.sequence: snapshot.id for snapshot in history.snapshots.values() if snapshot.sequence}
    for base, head, sequence in heads:
        if head in ours or base in ours:
            found.setdefault(sequence, head)
            ours |= {base, head} - {None}
    return found


def search(found: Range, failed: Failed, probe: Probe, oldest: OldestFailingRow = OldestFailingRow()) -> int | None:
    """The earliest snapshot of the range whose own rows make a failed check fail; None when it cannot be determined.

    It cannot be determined when rows were rewritten in the range, or when the rows are older than every remaining
    snapshot, and row lineage does not answer it.
    """
    snapshots, appends = found.snapshots, found.appends
    whole_line = found.kind is Kind.INCREMENT or (found.base is None and changes_rows(snapshots, None) is None)
    places = {append.sequence: index for index, append in enumerate(appends)}
    if oldest.sequence is not None and (not whole_line or oldest.sequence not in places):
        return oldest.snapshot  # written by a rewrite, or before every remaining snapshot
    if not appends or not whole_line or not (failed.alone or failed.strict or failed.tolerant):
        return None
    bads: list[int] = [] if oldest.sequence is None else [places[oldest.sequence]]
    for checks in (failed.strict,) if bads else (failed.alone, failed.strict):
        index = _halve(found, appends, checks, probe, again=checks is failed.strict) if checks else None
        if index is not None:
            bads.append(index)
    if failed.tolerant and len(appends) <= MOST_SINGLE:
        index = _one_by_one(appends[: min(bads, default=None)], failed.tolerant, probe)
        if index is not None:
            bads.append(index)
    if not bads:
        return None
    bad = appends[min(bads)]
    if bad.sequence is not None and bad.sequence == oldest.sequence:
        return bad.id
    oldest_is_not_first = found.base is None and bad is appends[0] and snapshots[0].parent is not None
    return None if oldest_is_not_first else bad.id


def _halve(
    found: Range, appends: Sequence[Snapshot], checks: Sequence[str], probe: Probe, *, again: bool
) -> int | None:
    """Binary search: the index of the first append up to which the checks fail. They fail up to the last one.

    Args:
        again: whether rows found good are read again with later rows.
    """
    start = found.base.snapshot if found.base else None
    low, high = 0, len(appends) - 1
    while low < high:
        middle = (low + high) // 2
        after = appends[low - 1].id if low and not again else start
        fails = probe(Read(after, appends[middle].id), checks)
        if fails is None:
            return None
        low, high = (low, middle) if fails else (middle + 1, high)
    return low


def _one_by_one(appends: Sequence[Snapshot], checks: Sequence[str], probe: Probe) -> int | None:
    for index, append in enumerate(appends):
        fails = probe(Read(append.parent, append.id), checks)
        if fails is None:
            return None
        if fails:
            return index
    return None
