"""Checks that a Delta log still has the commits after a position, and that a stream can read them.

It reads the log's files, without a JVM. Spark's source detects a missing commit too, but in the middle of a batch, with
a stack trace, and again after every restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import Action, DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.platform.errors import Blocked, Refused
from lakeward.platform.text import instant


@dataclass(frozen=True)
class Offset:
    """An end offset (exclusive) of Delta's source.

    Attributes:
        table_id: the table id.
        version: the version being read; the version after the newest if everything was read.
        whole: whether the source is still reading the initial snapshot, at that version.
        index: the index of the last file that was read at that version; negative if none was.
    """

    table_id: str
    version: int
    whole: bool
    index: int = -1


def parse(text: str) -> Offset | None:
    """Parse an offset; None if it is not an offset of Delta's source."""
    try:
        fields = json.loads(text)
        return Offset(str(fields["reservoirId"]), int(fields["reservoirVersion"]), bool(fields["isStartingVersion"]),
                      int(fields.get("index", -1)))  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def table_id(folder: Folder) -> str | None:
    """The table id; None if only Spark can read it. A table that was removed and created again has another id."""
    for version in reversed(versions(folder)):
        for action in actions(folder, version, "metaData"):
            return str(action["metaData"]["id"])
    try:
        table = log.read(folder)
    except Refused:
        return None
    return None if table is None else str(table.metadata.get("id"))


def check(stream: str, source: str, table: str, folder: Folder, at: Offset, *, skip: bool) -> None:
    """Compare an offset with the log.

    Args:
        skip: whether commits that change rows are skipped (`skip_changes`).

    Raises:
        Blocked: unread commits no longer exist, or one of them changes rows and is not skipped.
    """
    available = versions(folder)
    follows = at.version + 1 if at.whole else at.version
    head = available[-1] if available else -1
    if follows > head + 1:
        raise Blocked(
            f"Table {table} is at an older version than stream {stream} has read",
            why=f"source {source} continues at version {follows}; the newest is {head}: this is an older copy",
            next=f"restore the newest copy of the folder ({folder}), or give the stream a new id and a new table",
            reason="source-rolled-back",
            code="LW-3043",
        )
    unread = [version for version in available if version >= follows]
    if unread != list(range(follows, head + 1)):
        first = unread[0] if unread else head + 1
        raise Blocked(
            f"Table {table} no longer has commits that stream {stream} has not read",
            why=f"source {source} continues at version {follows}; the log's clean-up deleted versions {follows} to "
            f"{first - 1}",
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy   "
            "lands all current rows of the table; a longer delta.logRetentionDuration keeps more commits",
            reason="source-expired",
            code="LW-3044",
        )
    changed = None if skip else next((version for version in unread if _changes(folder, version)), None)
    if changed is not None:
        raise _rewritten(stream, source, table, folder, changed)


def check_version(stream: str, source: str, table: str, folder: Folder, version: int) -> None:
    """Check that a stream can start at a version.

    Raises:
        Blocked: its commit is no longer in the log.
    """
    check(stream, source, table, folder, Offset("", version, whole=False), skip=True)


def _rewritten(stream: str, source: str, table: str, folder: Folder, version: int) -> Blocked:
    commit = log.commit(folder, version)
    operation, at = ("", "") if commit is None else (f" ({commit.operation})", _when(commit.at_ms))
    return Blocked(
        f"A commit of {table} changes rows, but stream {stream} reads only added rows",
        why=f"version {version}{at}{operation} removes files",
        next=f"set skip_changes: true at source {source} in conf/streams/{stream}.yaml to skip such commits (rows that "
        "they remove stay in the sink, rows that they add are never read), then: lakeward deploy, "
        f"lakeward streams upgrade {stream}",
        reason="source-rewritten",
        code="LW-3042",
    )


def _changes(folder: Folder, version: int) -> bool:
    return any(action["remove"].get("dataChange", True) for action in actions(folder, version, "remove"))


def actions(folder: Folder, version: int, *kinds: str) -> Iterator[Action]:
    """The actions of a commit; none if the commit no longer exists."""
    with suppress(FileNotFoundError):  # the log's clean-up deleted it since the listing
        yield from DeltaLog(folder).actions(version, *kinds)


def versions(folder: Folder) -> list[int]:
    """The commits that the log still has, oldest first."""
    return list(DeltaLog(folder).listing().versions)


def _when(at_ms: int) -> str:
    return f" of {instant(at_ms):%Y-%m-%dT%H:%M:%SZ}" if at_ms else ""
