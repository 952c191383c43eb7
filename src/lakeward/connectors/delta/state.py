"""The files of a Delta table, live and taken out, from its log alone: no JVM, no data file is opened.

`log.read` tells which files hold the rows; this tells of each how large it is, how old, and whether a rewrite made it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakeward.connectors.delta import log
from lakeward.platform.errors import Refused

WINDOW = 1000  # newest commits whose own words are read; older files are known by the checkpoint alone
_OF_ADD = ("path", "size", "partitionValues", "stats", "modificationTime", "deletionVector")
_OF_REMOVE = ("path", "deletionTimestamp", "size")


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
    stats = [(each.name, each.stat()) for each in (folder / log.LOG).iterdir()]
    versions = {
        int(found[1]): int(stat.st_mtime * 1000)
        for name, stat in sorted(stats, key=lambda pair: pair[0])
        if (found := log.COMMIT.fullmatch(name)) is not None and int(found[1]) <= table.version
    }
    base, parts = log.checkpoint([name for name, _ in stats], table.version)
    files: dict[str, Live] = {}
    gone: dict[str, int] = {}
    for name in parts:
        _of_checkpoint(folder / log.LOG / name, files, gone)
    changes: list[Change] = []
    for version in [each for each in versions if each > min(base, max(since, table.version - WINDOW))]:
        change, taken = _change(folder, version, versions[version])
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
        )
    return State(
        folder=folder,
        version=table.version,
        versions=versions,
        checkpoint=base,
        log_bytes=sum(stat.st_size for _, stat in stats),
        files=files,
        gone=gone,
        changes=tuple(changes),
        domains=table.domains,
        metadata=table.metadata,
    )


def _change(folder: Path, version: int, at_ms: int) -> tuple[Change, dict[str, int]]:
    added: dict[str, Live] = {}
    taken: dict[str, int] = {}
    said: list[bool] = []
    for action in _actions(folder / log.LOG / f"{version:020d}.json"):
        if (add := action.get("add")) is not None:
            added[add["path"]] = _live(add)
            said.append(bool(add.get("dataChange", True)))
        elif (remove := action.get("remove")) is not None:
            taken[remove["path"]] = int(remove.get("deletionTimestamp") or at_ms)
            said.append(bool(remove.get("dataChange", True)))
    return Change(version, at_ms, added, tuple(taken), rewrite=bool(said) and not any(said)), taken


def _actions(file: Path) -> Iterator[dict[str, Any]]:
    try:
        with file.open() as lines:
            for line in lines:
                if line.startswith(('{"add"', '{"remove"')):
                    yield json.loads(line)
    except FileNotFoundError:  # cleaned up meanwhile
        return


def _of_checkpoint(file: Path, files: dict[str, Live], gone: dict[str, int]) -> None:
    source = pq.ParquetFile(file)
    has = set(source.schema_arrow.names)
    wanted = [f"add.{name}" for name in _OF_ADD] + (
        [f"remove.{name}" for name in _OF_REMOVE] if "remove" in has else []
    )
    for batch in source.iter_batches(columns=wanted):
        for row in batch.to_pylist():
            add, remove = row.get("add"), row.get("remove")
            if add is not None and add["path"] is not None:
                files[add["path"]] = _live(add)
            elif remove is not None and remove["path"] is not None:
                gone[remove["path"]] = int(remove.get("deletionTimestamp") or 0)


def _live(add: Mapping[str, Any]) -> Live:
    stats = json.loads(add.get("stats") or "{}")
    rows = stats.get("numRecords")
    partition = dict(add.get("partitionValues") or {})
    return Live(
        int(add.get("size") or 0), None if rows is None else int(rows), int(add.get("modificationTime") or 0), partition
    )
