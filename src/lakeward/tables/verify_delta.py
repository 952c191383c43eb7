"""Verifies OPTIMIZE and VACUUM of a Delta table, from its log and its folder."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from lakeward.connectors.delta import log
from lakeward.connectors.delta.folder import existing, parquet
from lakeward.connectors.delta.state import Live, State
from lakeward.platform.text import count
from lakeward.registry.maintenance import Figures
from lakeward.tables.observe.delta import partition_of
from lakeward.tables.partition_values import Partition
from lakeward.tables.plan.model import Action
from lakeward.tables.verify import TOLERANCE, Moved, Verdict


def moved_by(before: State, after: State) -> dict[int, dict[Partition, Moved]]:
    """Version -> partition -> files and live rows in and out, for each rewrite committed since `before`."""
    known: dict[str, Live] = _renamed(before, after)
    found: dict[int, dict[Partition, Moved]] = {}
    for change in (each for each in after.changes if each.version > before.version):
        sums: dict[Partition, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for at, files in ((0, change.added), (1, {path: known[path] for path in change.removed if path in known})):
            for path, live in files.items() if change.rewrite else ():
                of = sums[partition_of(after, live.partition)]
                of[at] += _rows(after, path, live) - live.deleted
                of[at + 2] += 1
        if sums:
            found[change.version] = {partition: Moved(*numbers) for partition, numbers in sums.items()}
        known |= change.added
    return found


def _renamed(before: State, after: State) -> dict[str, Live]:
    """The files before, their partition columns under today's names: a rename keeps their order."""
    if before.columns == after.columns or len(before.columns) != len(after.columns):
        return dict(before.files)
    names = tuple(zip(before.columns, after.columns, strict=True))
    return {
        path: replace(live, partition={new: live.partition.get(old) for old, new in names})
        for path, live in before.files.items()
    }


def _rows(table: State, path: str, live: Live) -> int:
    if live.rows is not None:
        return live.rows
    return int(pq.read_metadata(parquet(log.absolute(table.folder, path))).num_rows)  # its writer did not state it


@dataclass(frozen=True)
class DeltaState:
    """The content of a table's folder.

    Attributes:
        missing: files of the newest version that do not exist.
        removed_present: removed files that still exist.
    """

    missing: frozenset[str]
    removed_present: frozenset[str]


def folder_state(state: State) -> DeltaState:
    """Check which files exist; no file is opened."""

    of_path = {path: log.absolute(state.folder, path) for path in (*state.files, *state.removed)}
    there = existing(state.folder, list(of_path.values()))
    missing = frozenset(path for path in state.files if of_path[path] not in there)
    return DeltaState(missing, frozenset(path for path in state.removed if of_path[path] in there))


def verify_vacuum(action: Action, before: State, held: DeltaState, after: State) -> Verdict:
    """Judge a VACUUM: every file of the newest version exists, no young file was deleted, and promised files were.

    Args:
        before, held: the table and its folder before it.
        after: the table now.
    """
    cutoff = action.cutoff.timestamp() * 1000
    now = folder_state(after)
    lost = sorted(now.missing - held.missing)
    if lost:
        return Verdict(False, f"missing in the folder: {count(len(lost), 'file')} of the table, e.g. {lost[0]}", True)
    deleted = held.removed_present - now.removed_present
    young = sorted(path for path in deleted if before.removed[path] >= cutoff)
    if young:
        return Verdict(False, f"{young[0]} went though it was taken out later than allowed", True)
    promised = {path for path in held.removed_present if before.removed[path] < cutoff}
    figures: Figures = {"files_deleted": len(deleted), "snapshots_expired": len(deleted)}
    if len(deleted) < len(promised) * (1 - TOLERANCE):
        why = f"{count(len(deleted), 'file')} went, {len(promised)} were promised"
        return Verdict(False, why, figures=figures)
    return Verdict(
        True, f"{count(len(deleted), 'file')} went, {count(len(after.files), 'file')} stand", figures=figures
    )
