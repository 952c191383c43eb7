"""What of a Delta table waits for a stream that reads it, out of the log's files, without a JVM.

Delta's source counts files: of the table as it stood in the order of their time and path, then of each commit in the
order in which the log names them. A writer says how many rows a file has; one that does not makes the number unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.source import history
from lakeward.connectors.delta.source.history import Offset


@dataclass(frozen=True)
class Added:
    """A data file that a commit added: `rows` None where its writer did not say; `at_ms` since 1970."""

    path: str
    rows: int | None
    at_ms: int


@dataclass(frozen=True)
class Backlog:
    """Rows behind a position, and since when (milliseconds since 1970) the first of them waits; `rows` None where
    nobody knows."""

    rows: int | None
    since_ms: int | None


def behind(folder: Path, at: Offset | None) -> Backlog:
    """What waits behind a position; None: the whole table, as it stands."""
    versions = history.versions(folder)
    if not versions:
        return Backlog(0, None)
    if at is None:
        files = files_at(folder, versions[-1])
    else:
        files = files_at(folder, at.version)[at.index + 1 if at.index >= 0 else 0 :] if at.whole else []
        for version in versions:
            if version == at.version and not at.whole:
                files += list(added(folder, version))[at.index + 1 if at.index >= 0 else 0 :]
            elif version > at.version:
                files += added(folder, version)
    rows = None if any(each.rows is None for each in files) else sum(each.rows or 0 for each in files)
    return Backlog(rows, min((each.at_ms for each in files if each.rows != 0), default=None))


def added(folder: Path, version: int) -> Iterator[Added]:
    """The files that a commit added with rows that are new, in the log's order; nothing where it is cleaned up."""
    for action in history.actions(folder, version, "add"):
        if action["add"].get("dataChange", True):
            yield _added(action["add"])


def newest(folder: Path, most: int) -> list[str]:
    """Paths, as the log has them, of the newest files that hold about so many rows and are in the table now."""
    table = log.read(folder)
    if table is None:
        return []
    found: list[str] = []
    rows = 0
    for version in reversed(history.versions(folder)):
        for each in added(folder, version):
            if each.path in table.files and rows < most:
                found.append(each.path)
                rows += each.rows or 0
    return found or list(table.files)[:1]


def since(folder: Path, at_ms: int) -> list[Added]:
    """The files that were added with new rows since a moment (milliseconds since 1970), newest commit first."""
    found: list[Added] = []
    for version in reversed(history.versions(folder)):
        commit = log.commit(folder, version)
        if commit is None or commit.at_ms < at_ms:
            break
        found += added(folder, version)
    return found


def files_at(folder: Path, version: int) -> list[Added]:
    """The files of the table at a version, in the order in which Delta's source takes them."""
    whole = DeltaLog(folder)
    listing = whole.listing()
    base = listing.checkpoint(version)
    wanted = ("add.path", "add.stats", "add.modificationTime")
    files = {
        action["add"]["path"]: _added(action["add"])
        for action in whole.checkpoint_actions(listing.checkpoints.get(base, ()), wanted)
        if "add" in action
    }
    for number in range(base + 1, version + 1):
        for action in history.actions(folder, number, "add", "remove"):
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            else:
                files[action["add"]["path"]] = _added(action["add"])
    return sorted(files.values(), key=lambda each: (each.at_ms, each.path))


def _added(action: dict[str, Any]) -> Added:
    stats = json.loads(action.get("stats") or "{}")
    return Added(str(action["path"]), stats.get("numRecords"), int(action.get("modificationTime") or 0))
