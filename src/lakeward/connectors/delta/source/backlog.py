"""The backlog of a stream that reads a Delta table: rows and age, from the log's files, without a JVM.

Delta's source numbers data files: those of the initial snapshot in the order of their time and path, then those of each
commit in the order of the log. The number of rows is unknown if the writer of a file did not record it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.source import history
from lakeward.connectors.delta.source.history import Offset


@dataclass(frozen=True)
class Added:
    """A data file that a commit added.

    Attributes:
        path: as in the log.
        rows: None if its writer did not record it.
        at_ms: when it was written, in milliseconds since 1970.
    """

    path: str
    rows: int | None
    at_ms: int


@dataclass(frozen=True)
class Backlog:
    """The rows after a position.

    Attributes:
        rows: their number; None if it is unknown.
        since_ms: the age of the oldest of them: when it was written, in milliseconds since 1970.
    """

    rows: int | None
    since_ms: int | None


def behind(folder: Folder, at: Offset | None) -> Backlog:
    """The backlog after position `at`; without a position (None) it is the whole table."""
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
    rows = None if any(file.rows is None for file in files) else sum(file.rows or 0 for file in files)
    return Backlog(rows, min((file.at_ms for file in files if file.rows != 0), default=None))


def added(folder: Folder, version: int) -> Iterator[Added]:
    """The files that a commit added with new rows, in the order of the log; none if the commit no longer exists."""
    for action in history.actions(folder, version, "add"):
        if action["add"].get("dataChange", True):
            yield _added(action["add"])


def newest(folder: Folder, most: int) -> list[str]:
    """Paths (as in the log) of the newest live files, until they hold about `most` rows."""
    table = log.read(folder)
    if table is None:
        return []
    paths: list[str] = []
    rows = 0
    for version in reversed(history.versions(folder)):
        for file in added(folder, version):
            if file.path in table.files and rows < most:
                paths.append(file.path)
                rows += file.rows or 0
    return paths or list(table.files)[:1]


def since(folder: Folder, at_ms: int) -> list[Added]:
    """The files that were added with new rows since `at_ms` (milliseconds since 1970), newest commit first."""
    files: list[Added] = []
    for version in reversed(history.versions(folder)):
        commit = log.commit(folder, version)
        if commit is None or commit.at_ms < at_ms:
            break
        files += added(folder, version)
    return files


def files_at(folder: Folder, version: int) -> list[Added]:
    """The files of the table at a version, in the order in which Delta's source reads them."""
    delta_log = DeltaLog(folder)
    listing = delta_log.listing()
    base = listing.checkpoint(version)
    columns = ("add.path", "add.stats", "add.modificationTime")
    files = {
        action["add"]["path"]: _added(action["add"])
        for action in delta_log.checkpoint_actions(listing.checkpoints.get(base, ()), columns)
        if "add" in action
    }
    for number in range(base + 1, version + 1):
        for action in history.actions(folder, number, "add", "remove"):
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            else:
                files[action["add"]["path"]] = _added(action["add"])
    return sorted(files.values(), key=lambda file: (file.at_ms, file.path))


def _added(action: dict[str, Any]) -> Added:
    stats = json.loads(action.get("stats") or "{}")
    return Added(str(action["path"]), stats.get("numRecords"), int(action.get("modificationTime") or 0))
