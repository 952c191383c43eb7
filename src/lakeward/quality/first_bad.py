"""The first snapshot with which the failed checks fail. Pure: the search is here, the probing is handed in.

Row by row checks without `mostly` can only go from good to bad as rows are appended, so halving finds the first bad
snapshot in log2(n) small reads. With `mostly` a later good batch can hide an earlier bad one: such checks are probed
snapshot by snapshot, within a bound. Checks of aggregates (a mean, a row count) belong to no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeward.quality.lineage import Snapshot
from lakeward.quality.range import Kind, Range, Read, changes_rows

MOST_SINGLE = 16  # snapshots probed one by one


@dataclass(frozen=True)
class Failed:
    """The ids of failed row by row checks on the increment.

    Attributes:
        strict: every row must hold.
        tolerant: a share of the rows may fail (`mostly`).
    """

    strict: tuple[str, ...] = ()
    tolerant: tuple[str, ...] = ()


Probe = Callable[[Read, Sequence[str]], bool | None]
"""Whether any of the checks fails on the rows of the read; None when the engine could not tell."""


def search(found: Range, failed: Failed, probe: Probe) -> int | None:
    """The earliest snapshot of the range whose own rows make a failed check fail; None when it cannot be told.

    It cannot be told when rows were rewritten in the range, or when the rows are older than every snapshot left.
    """
    snapshots, appends = found.snapshots, found.appends
    whole_line = found.kind is Kind.INCREMENT or (found.base is None and changes_rows(snapshots, None) is None)
    if not appends or not whole_line or not (failed.strict or failed.tolerant):
        return None
    bads: list[int] = []
    if failed.strict:
        index = _halve(found, appends, failed.strict, probe)
        if index is not None:
            bads.append(index)
    if failed.tolerant and len(appends) <= MOST_SINGLE:
        index = _one_by_one(appends[: bads[0] if bads else None], failed.tolerant, probe)
        if index is not None:
            bads.append(index)
    if not bads:
        return None
    bad = appends[min(bads)]
    oldest_is_not_first = found.base is None and bad is appends[0] and snapshots[0].parent is not None
    return None if oldest_is_not_first else bad.id


def _halve(found: Range, appends: Sequence[Snapshot], checks: Sequence[str], probe: Probe) -> int | None:
    """The index of the first append up to which the checks fail, knowing that they fail up to the last one."""
    start = found.base.snapshot if found.base else None
    low, high = 0, len(appends) - 1
    while low < high:
        middle = (low + high) // 2
        fails = probe(Read(start, appends[middle].id), checks)
        if fails is None:
            return None
        low, high = (low, middle) if fails else (middle + 1, high)
    return low


def _one_by_one(appends: Sequence[Snapshot], checks: Sequence[str], probe: Probe) -> int | None:
    for index, each in enumerate(appends):
        fails = probe(Read(each.parent, each.id), checks)
        if fails is None:
            return None
        if fails:
            return index
    return None
