"""Does a Delta table's log still have, and in a form a stream can read, what comes after a position?

Read from the log's files, without a JVM: Spark's source finds out too, but in the middle of a batch, with a stack
trace, and again at every restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import Action, DeltaLog
from lakeward.platform.errors import Blocked, Refused


@dataclass(frozen=True)
class Offset:
    """Up to where (exclusive) a table is read, as Delta's source has it.

    Attributes:
        table_id: the table's own id.
        version: the commit that is under way; the one after the newest when all is read.
        whole: it is still reading the table as it stood at that version, from before the commits it follows.
        index: the last file of it that is taken; negative where none is.
    """

    table_id: str
    version: int
    whole: bool
    index: int = -1


def parse(text: str) -> Offset | None:
    """Read a position; None if it is none of this form."""
    try:
        found = json.loads(text)
        return Offset(str(found["reservoirId"]), int(found["reservoirVersion"]), bool(found["isStartingVersion"]),
                      int(found.get("index", -1)))  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def table_id(folder: Path) -> str | None:
    """The table's own id: another one after it was removed and made again; None where only Spark can tell."""
    for version in reversed(versions(folder)):
        for action in actions(folder, version, "metaData"):
            return str(action["metaData"]["id"])
    try:
        found = log.read(folder)
    except Refused:
        return None
    return None if found is None else str(found.metadata.get("id"))


def check(stream: str, source: str, table: str, folder: Path, at: Offset, *, skip: bool) -> None:
    """Compare a position with the log.

    Raises:
        Blocked: commits that were never read are gone, or one changes rows and is not to be skipped.
    """
    left = versions(folder)
    follows = at.version + 1 if at.whole else at.version
    head = left[-1] if left else -1
    if follows > head + 1:
        raise Blocked(
            f"Table {table} is shorter than what stream {stream} has read of it",
            why=f"source {source} goes on at version {follows}; the newest is {head}: this is an older copy",
            next=f"put the right folder back ({folder}), or give the stream a new id and a new table",
            reason="source-rolled-back",
            code="LW-3043",
        )
    kept = [version for version in left if version >= follows]
    if kept != list(range(follows, head + 1)):
        first = kept[0] if kept else head + 1
        raise Blocked(
            f"Table {table} no longer has commits that stream {stream} never read",
            why=f"source {source} goes on at version {follows}; clean-up took versions {follows} to {first - 1}",
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy   "
            "lands the table as it stands; a longer delta.logRetentionDuration keeps more",
            reason="source-expired",
            code="LW-3044",
        )
    changed = None if skip else next((version for version in kept if _changes(folder, version)), None)
    if changed is not None:
        raise _rewritten(stream, source, table, folder, changed)


def check_version(stream: str, source: str, table: str, folder: Path, version: int) -> None:
    """Whether a stream can begin with a version.

    Raises:
        Blocked: its commit is not in the log any more.
    """
    check(stream, source, table, folder, Offset("", version, whole=False), skip=True)


def _rewritten(stream: str, source: str, table: str, folder: Path, version: int) -> Blocked:
    commit = log.commit(folder, version)
    what, at = ("", "") if commit is None else (f" ({commit.operation})", _when(commit.at_ms))
    return Blocked(
        f"A commit of {table} changes rows, and stream {stream} reads rows that are added",
        why=f"version {version}{at}{what} takes files away",
        next=f"say skip_changes: true at source {source} in conf/streams/{stream}.yaml to go on without such commits "
        "(what they took out stays in the sink, what they put in never comes), then: lakeward deploy, "
        f"lakeward streams upgrade {stream}",
        reason="source-rewritten",
        code="LW-3042",
    )


def _changes(folder: Path, version: int) -> bool:
    return any(action["remove"].get("dataChange", True) for action in actions(folder, version, "remove"))


def actions(folder: Path, version: int, *kinds: str) -> Iterator[Action]:
    """The actions of a commit; none where it is cleaned up."""
    with suppress(FileNotFoundError):  # cleaned up meanwhile
        yield from DeltaLog(folder).actions(version, *kinds)


def versions(folder: Path) -> list[int]:
    """The commits that are left in the log, oldest first."""
    return list(DeltaLog(folder).listing().versions)


def _when(at_ms: int) -> str:
    return f" of {datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}" if at_ms else ""
