"""The versions of a Delta table as a chain of commits, read from its log without Spark.

A version is the counterpart of a snapshot. The actions of a commit decide what it did, not its operation name: an
insert-only MERGE only adds rows. If its rows cannot be read on their own (a rewrite, a missing file, a form only Spark
reads), the commit counts as one that rewrites rows and carries the reason. A range with such a commit is read as the
whole table, never as fewer rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.log import Head
from lakeward.platform.errors import LakewardError
from lakeward.platform.text import instant
from lakeward.quality.delta.apart import why_not, why_not_table
from lakeward.quality.ranges.snapshot_chain import Snapshot

MOST = 100_000
"""Newest versions that are read: eleven days of a commit every ten seconds. Older ones count as expired."""


@dataclass(frozen=True)
class Commit:
    """One version.

    Attributes:
        snapshot: the version as a snapshot of the chain.
        adds: the `add` actions of its new rows, as in the log; empty unless it is an append.
    """

    snapshot: Snapshot
    adds: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Commits(Mapping[int, Snapshot]):
    """Version -> commit. Each commit is read once, on first access.

    A table of a stream has thousands of versions in its log; a run needs the few since the last proof.
    """

    head: Head
    _read: dict[int, Snapshot] = field(default_factory=dict)

    def __getitem__(self, version: int) -> Snapshot:
        if version not in self._read:
            self._read[version] = self._of(version).snapshot
        return self._read[version]

    def __contains__(self, version: object) -> bool:
        return version in self.head.versions and isinstance(version, int) and version > self.head.version - MOST

    def __iter__(self) -> Iterator[int]:
        return (version for version in self.head.versions if version in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def adds(self, version: int) -> tuple[Mapping[str, Any], ...]:
        """The `add` actions of the rows a version added; empty if it rewrites rows. Not cached: they may be many.

        Raises:
            LakewardError: the version is no longer in the log.
        """
        try:
            return self._of(version).adds
        except KeyError:
            raise LakewardError(
                f"Version {version} is no longer in the Delta log of {self.head.folder}",
                why="the table was dropped, replaced, or its log cleaned up meanwhile",
                next="repeat the run",
                code="LW-5028",
            ) from None

    def _of(self, version: int) -> Commit:
        if version not in self:
            raise KeyError(version)
        return _commit(self.head, version)


def _commit(head: Head, version: int) -> Commit:
    at = instant(head.versions[version])
    try:
        actions = list(DeltaLog(head.folder).actions(version))
    except FileNotFoundError:
        raise KeyError(version) from None  # cleaned up meanwhile
    except ValueError as error:
        unread = Snapshot(
            version, version - 1, version, at, "overwrite", why=f"version {version} cannot be read: {error}"
        )
        return Commit(unread)
    return commit_of(head, version, at, actions)


def commit_of(head: Head, version: int, at: datetime, actions: Sequence[Mapping[str, Any]]) -> Commit:
    """One version from its actions.

    Args:
        head: the table as it is now.
        version, at: the version and its commit time.
        actions: its actions, as in the log file.
    """
    about: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    info = log.Commit(version, str(about.get("operation", "unknown")), about.get("operationParameters") or {})
    adds = tuple(action["add"] for action in actions if "add" in action)
    removes = [action["remove"] for action in actions if "remove" in action]
    if info.parent is None:
        removes = []  # the removed files belong to the replaced table
    operation, why = _judged(head, version, info.operation, adds, removes)
    brought = adds if operation == "append" else ()
    snapshot = Snapshot(
        id=version,
        parent=version - 1 if info.parent == -1 else info.parent,  # a RESTORE to a time: the target is not in the log
        sequence=version,
        at=at,
        operation=operation,
        added=sum(rows_of(add) or 0 for add in adds if operation != "replace"),
        wap_id=about.get("userMetadata"),
        commit=f"{head.table_id}/{about.get('txnId') or about.get('timestamp')}",
        why=why,
    )
    return Commit(snapshot, brought)


def rows_of(action: Mapping[str, Any]) -> int | None:
    """The rows of an added or removed file; None if its writer did not state the number."""
    stats = json.loads(action.get("stats") or "{}")
    if (stated := stats.get("numRecords")) is None:
        return None
    return int(stated) - int((action.get("deletionVector") or {}).get("cardinality") or 0)


def _judged(
    head: Head, version: int, operation: str, adds: Sequence[Mapping[str, Any]], removes: Sequence[Mapping[str, Any]]
) -> tuple[str, str | None]:
    """The operation of a commit in terms of the snapshot chain, and for one that rewrites rows the reason."""
    if operation == "RESTORE":
        return "overwrite", f"version {version} is a RESTORE, which takes rows out and puts earlier ones back"
    if not adds and not removes:
        return "append", None  # no rows: properties, a position, an empty batch
    changing = {bool(each.get("dataChange", True)) for each in (*adds, *removes)}
    if changing == {False}:
        return _compaction(version, adds, removes)
    if removes or len(changing) > 1:
        return "overwrite" if adds else "delete", f"version {version} ({operation}) rewrites rows in place"
    if (apart := why_not_table(head)) is not None:
        return "overwrite", f"the rows of version {version} cannot be read on their own ({apart})"
    for add in adds:
        if rows_of(add) is None:
            return "overwrite", f"version {version} does not state the row counts of its files"
        if (apart := why_not(head, add)) is not None:
            return "overwrite", f"the rows of version {version} cannot be read on their own ({apart})"
    return "append", None


def _compaction(
    version: int, adds: Sequence[Mapping[str, Any]], removes: Sequence[Mapping[str, Any]]
) -> tuple[str, str | None]:
    before, after = [rows_of(remove) for remove in removes], [rows_of(add) for add in adds]
    known = None not in before and None not in after
    if known and (was := sum(filter(None, before))) != (now := sum(filter(None, after))):
        return "overwrite", f"compaction {version} changed the row count from {was} to {now}"
    return "replace", None
