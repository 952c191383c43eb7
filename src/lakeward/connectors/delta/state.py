"""The files of a Delta table, live and taken out, from its log alone: no JVM, no data file is opened.

`log.read` tells which files hold the rows; this tells of each how large it is, how old, and whether a rewrite made it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.platform.errors import Refused

WINDOW = 1000  # newest commits whose own words are read; older files are known by the checkpoint alone
_WANTED = (
    "add.path", "add.size", "add.partitionValues", "add.stats", "add.modificationTime", "add.deletionVector",
    "remove.path", "remove.deletionTimestamp", "remove.size",
)  # fmt: skip


@dataclass(frozen=True)
class Live:
    """A file that holds rows.

    Attributes:
        size: bytes.
        rows: None where its writer did not say.
        at_ms: when it was written, milliseconds since 1970.
        partition: values of the partition columns, as text.
    """

    size: int
    rows: int | None
    at_ms: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class Change:
    """What one commit did to the files.

    Attributes:
        at_ms: when it was committed (the time of its file).
        added, removed: paths, as the log has them.
        rewrite: it moved rows between files and changed none (`dataChange` is false on all it did).
    """

    version: int
    at_ms: int
    added: Mapping[str, Live] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    rewrite: bool = False


@dataclass(frozen=True)
class State:
    """A table at its newest version.

    Attributes:
        versions: commits whose file is kept -> when (milliseconds since 1970), oldest first.
        checkpoint: version of the newest one; -1: none.
        log_bytes: of everything in the log's folder.
        files: path -> file.
        gone: path -> when it was taken out (milliseconds since 1970), as far as the log still says; VACUUM's business.
        changes: the newest commits, oldest first.
        domains, metadata: as of `log.TableLog`.
    """

    folder: Path
    version: int
    versions: Mapping[int, int]
    checkpoint: int
    log_bytes: int
    files: Mapping[str, Live]
    gone: Mapping[str, int]
    changes: tuple[Change, ...]
    domains: Mapping[str, str]
    metadata: Mapping[str, Any]

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self.metadata.get("partitionColumns") or ())

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the schema, nested ones left out."""
        return tuple(str(each["name"]) for each in self._fields)

    def type_of(self, column: str) -> str:
        """A column's type as the schema has it, `string`; empty for one that is not simple or not there."""
        return next(
            (str(each["type"]) for each in self._fields if each["name"] == column and isinstance(each["type"], str)), ""
        )

    @property
    def _fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.metadata.get("schemaString") or '{"fields": []}')["fields"]
        return found


def read(folder: Path, since: int = -1) -> State | None:
    """The newest version of the table in `folder`; None if there is none.

    Args:
        since: a version from which on commits are wanted in their own words; no more than `WINDOW` are read.

    Raises:
        Refused: the table uses something only Spark reads here.
    """
    table = log.read(folder)
    if table is None:
        return None
    read_ = DeltaLog(folder)
    listing = read_.listing()
    versions = {version: at for version, at in read_.times(listing).items() if version <= table.version}
    base = listing.checkpoint(table.version)
    files: dict[str, Live] = {}
    gone: dict[str, int] = {}
    for action in read_.checkpoint_actions(listing.checkpoints.get(base, ()), _WANTED):
        if (add := action.get("add")) is not None:
            files[add["path"]] = _live(add)
        elif (remove := action.get("remove")) is not None:
            gone[remove["path"]] = int(remove.get("deletionTimestamp") or 0)
    changes: list[Change] = []
    for version in [each for each in versions if each > min(base, max(since, table.version - WINDOW))]:
        change, taken = _change(read_, version, versions[version])
        if version > base:
            for path in change.removed:
                files.pop(path, None)
            gone |= taken
            files |= change.added
            for path in change.added:
                gone.pop(path, None)
        changes.append(change)
    if set(files) != set(table.files):
        raise Refused(
            f"The log of the Delta table in {folder} changed while it was read",
            why="a checkpoint or a clean-up came between",
            next="try again",
            code="LW-3048",
        )
    return State(
        folder=folder,
        version=table.version,
        versions=versions,
        checkpoint=base,
        log_bytes=read_.size(),
        files=files,
        gone=gone,
        changes=tuple(changes),
        domains=table.domains,
        metadata=table.metadata,
    )


def _change(files: DeltaLog, version: int, at_ms: int) -> tuple[Change, dict[str, int]]:
    added: dict[str, Live] = {}
    taken: dict[str, int] = {}
    said: list[bool] = []
    with suppress(FileNotFoundError):  # cleaned up meanwhile
        for action in files.actions(version, "add", "remove"):
            if (add := action.get("add")) is not None:
                added[add["path"]] = _live(add)
                said.append(bool(add.get("dataChange", True)))
            elif (remove := action.get("remove")) is not None:
                taken[remove["path"]] = int(remove.get("deletionTimestamp") or at_ms)
                said.append(bool(remove.get("dataChange", True)))
    return Change(version, at_ms, added, tuple(taken), rewrite=bool(said) and not any(said)), taken


def _live(add: Mapping[str, Any]) -> Live:
    stats = json.loads(add.get("stats") or "{}")
    rows = stats.get("numRecords")
    partition = dict(add.get("partitionValues") or {})
    return Live(
        int(add.get("size") or 0), None if rows is None else int(rows), int(add.get("modificationTime") or 0), partition
    )
