"""The live and the removed files of a Delta table, from its log alone: no JVM runs, no data file is opened.

`log.read` returns the paths of the live files. `read` here adds size and age of each file, and which commits were
rewrites.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakeward.connectors.delta import column_mapping, log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.platform.errors import Refused

WINDOW = 1000  # newest commits whose files are parsed; older data files are known from the checkpoint alone
_COLUMNS = (
    "add.path", "add.size", "add.partitionValues", "add.stats", "add.modificationTime", "add.deletionVector",
    "remove.path", "remove.deletionTimestamp", "remove.size",
)  # fmt: skip


@dataclass(frozen=True)
class Live:
    """A live data file.

    Attributes:
        size: its size in bytes.
        rows: its number of rows; None if its writer did not record it.
        at_ms: when it was written, in milliseconds since 1970.
        partition: the values of the partition columns, as text.
        deleted: of its rows, those that its deletion vector deletes.
    """

    size: int
    rows: int | None
    at_ms: int
    partition: Mapping[str, str | None]
    deleted: int = 0


@dataclass(frozen=True)
class Change:
    """The data files that one commit added and removed.

    Attributes:
        at_ms: the time of the commit file.
        added, removed: paths as in the log.
        rewrite: whether it only moved rows between files (`dataChange` is false in all its actions).
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
        versions: version of a commit whose file exists -> its time (milliseconds since 1970), oldest first.
        checkpoint: version of the newest checkpoint; -1 if there is none.
        log_bytes: size of all files in the log's folder.
        files: path -> live file.
        removed: path -> when it was removed (milliseconds since 1970), if still in the log and in the table's folder.
            VACUUM deletes the file.
        changes: the newest commits, oldest first.
        domains, metadata: see `log.TableLog`.
    """

    folder: Folder
    version: int
    versions: Mapping[int, int]
    checkpoint: int
    log_bytes: int
    files: Mapping[str, Live]
    removed: Mapping[str, int]
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
        """The names of the top-level columns."""
        return tuple(str(field["name"]) for field in self._fields)

    def type_of(self, column: str) -> str:
        """The type of a column as in the schema, e.g. `string`; empty for a nested or a missing column."""
        types = (field["type"] for field in self._fields if field["name"] == column)
        return next((kind for kind in types if isinstance(kind, str)), "")

    @property
    def _fields(self) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = json.loads(self.metadata.get("schemaString") or '{"fields": []}')["fields"]
        return fields


def read(folder: Folder, since: int = -1) -> State | None:
    """The newest version of the table in `folder`; None if there is no table.

    Args:
        since: commits after this version are parsed, at most `WINDOW` of them.

    Raises:
        Refused: the table uses a feature that only Spark reads.
    """
    table = log.read(folder, deletion_vectors=True)
    if table is None:
        return None
    delta_log = DeltaLog(folder)
    listing = delta_log.listing()
    versions = {version: at for version, at in delta_log.times(listing).items() if version <= table.version}
    base = listing.checkpoint(table.version)
    files: dict[str, Live] = {}
    removed_at: dict[str, int] = {}
    for action in delta_log.checkpoint_actions(listing.checkpoints.get(base, ()), _COLUMNS):
        if (add := action.get("add")) is not None:
            files[add["path"]] = _live(add, table.metadata)
        elif (remove := action.get("remove")) is not None:
            removed_at[remove["path"]] = int(remove.get("deletionTimestamp") or 0)
    changes: list[Change] = []
    oldest = min(base, max(since, table.version - WINDOW))
    for version in [version for version in versions if version > oldest]:
        change, removed = _change(delta_log, version, versions[version], table.metadata)
        if version > base:
            for path in change.removed:
                files.pop(path, None)
            removed_at |= removed
            files |= change.added
            for path in change.added:
                removed_at.pop(path, None)
        changes.append(change)
    if set(files) != set(table.files):
        raise Refused(
            f"The log of the Delta table in {folder} changed while it was read",
            why="a checkpoint was written or the log was cleaned up in between",
            next="repeat the command",
            code="LW-3048",
        )
    return State(
        folder=folder,
        version=table.version,
        versions=versions,
        checkpoint=base,
        log_bytes=delta_log.size(),
        files=files,
        removed={path: at_ms for path, at_ms in removed_at.items() if _within(folder, path)},
        changes=tuple(changes),
        domains=table.domains,
        metadata=table.metadata,
    )


def _change(
    delta_log: DeltaLog, version: int, at_ms: int, metadata: Mapping[str, Any]
) -> tuple[Change, dict[str, int]]:
    """The change of one commit, and path -> when the file was removed."""
    added: dict[str, Live] = {}
    removed: dict[str, int] = {}
    data_changes: list[bool] = []
    with suppress(FileNotFoundError):  # the log's clean-up deleted it since the listing
        for action in delta_log.actions(version, "add", "remove"):
            if (add := action.get("add")) is not None:
                added[add["path"]] = _live(add, metadata)
                data_changes.append(bool(add.get("dataChange", True)))
            elif (remove := action.get("remove")) is not None:
                removed[remove["path"]] = int(remove.get("deletionTimestamp") or at_ms)
                data_changes.append(bool(remove.get("dataChange", True)))
    rewrite = bool(data_changes) and not any(data_changes)
    return Change(version, at_ms, added, tuple(removed), rewrite=rewrite), removed


def _within(folder: Folder, path: str) -> bool:
    """Whether a file is in the table's folder. A shallow clone names files of its base, which its VACUUM leaves."""
    if not path.startswith("/") and ":/" not in path:
        return True
    return str(log.absolute(folder, path)).startswith(f"{folder}/")


def _live(add: Mapping[str, Any], metadata: Mapping[str, Any]) -> Live:
    stats = json.loads(add.get("stats") or "{}")
    rows = stats.get("numRecords")
    partition = column_mapping.by_column(metadata, add.get("partitionValues") or {})
    return Live(
        int(add.get("size") or 0),
        None if rows is None else int(rows),
        int(add.get("modificationTime") or 0),
        partition,
        int((add.get("deletionVector") or {}).get("cardinality") or 0),
    )
