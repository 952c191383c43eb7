"""Rolls a Delta table back to an earlier version, with positions, in one commit without Spark.

The commit is a `RESTORE` in the table's history, as Spark's own: it removes the files that only the newest version has,
adds those that only the target has, and continues the rows of the target. Unlike Spark's, it has the domain metadata of
positions, too. It is the version after the one that was read, which only one writer can take (ADR 45, 110, 113).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow.parquet as pq

from lakeward.connectors.delta import column_mapping, log
from lakeward.connectors.delta.check import DOMAINS, catalog_name, restore
from lakeward.connectors.delta.deletion_vectors import file_of
from lakeward.connectors.delta.delta_log import DeltaLog, commit_info
from lakeward.connectors.delta.folder import Folder, existing, parquet
from lakeward.connectors.delta.position_store import IN_COMMIT_TIMESTAMPS, INDIFFERENT
from lakeward.platform.errors import Fenced, Refused, Transient
from lakeward.platform.text import count, word

SETTLED = "LAKEWARD FINISH RESTORE"
"""The operation of the commit that removes the marker of a finished restore."""
ATTEMPTS = 10

_COLUMNS = ("add", "metaData", "protocol", "domainMetadata")
_KINDS = (*_COLUMNS, "remove")
_SUPPORTED = INDIFFERENT - {"icebergCompatV1", "icebergCompatV2"}  # these have metadata of Iceberg for each added file
_KEPT = ("size", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion", "stats", "tags")
"""What an `add` and a `remove` of one file have in common."""
_OF_ADD = ("path", *_KEPT, "modificationTime", "clusteringProvider")
_SET_UP = ("delta.enableRowTracking", "delta.enableIcebergCompatV1",
           "delta.enableIcebergCompatV2")  # fmt: skip
_OF_NO_FILE = ("comment", "delta.identity.highWaterMark")
_CONSTRAINT = "delta.constraints."
_RETENTION = "delta.deletedFileRetentionDuration"


@dataclass(frozen=True)
class TableVersion:
    """A table at one version.

    Attributes:
        files: path as in the log -> its `add` action.
        domains: domain -> configuration.
        metadata, protocol: the actions of the log.
    """

    folder: Folder
    version: int
    files: Mapping[str, Mapping[str, Any]]
    domains: Mapping[str, str]
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        """The writer features."""
        return frozenset(self.protocol.get("writerFeatures") or ())

    @property
    def rows(self) -> int:
        """The number of rows, from the log; for a file whose writer did not record it, from the file."""
        return sum(rows_of(self.folder, add) for add in self.files.values())


def newest(folder: Folder) -> TableVersion | None:
    """The newest version; None if there is no table.

    Raises:
        Refused: its log is incomplete.
    """
    versions = DeltaLog(folder).listing().versions
    return at_version(folder, max(versions)) if versions else None


def at_version(folder: Folder, version: int) -> TableVersion:
    """The table at a version, from the newest checkpoint up to it and the commits after that.

    Raises:
        Refused: its log is incomplete.
    """
    delta_log = DeltaLog(folder)
    files: dict[str, Mapping[str, Any]] = {}
    domains: dict[str, str] = {}
    metadata: Mapping[str, Any] = {}
    protocol: Mapping[str, Any] = {}
    try:
        replayed = delta_log.replay(delta_log.listing(), version, _COLUMNS, *_KINDS)
        for _, of_commit in groupby(replayed, itemgetter(0)):
            added: dict[str, Mapping[str, Any]] = {}
            for _, action in of_commit:
                if (add := action.get("add")) is not None:
                    added[add["path"]] = add
                if (remove := action.get("remove")) is not None:
                    files.pop(remove["path"], None)
                log.set_domain(domains, action)
                if (found := action.get("metaData")) is not None and found.get("id"):
                    metadata = found
                if (found := action.get("protocol")) is not None and found.get("minReaderVersion"):
                    protocol = found
            files |= added  # a new deletion vector removes and adds its file in one commit, in any order
    except FileNotFoundError:
        metadata = {}
    if not metadata or not protocol:
        raise Refused(
            f"Version {version} of the Delta table in {folder} cannot be restored: its log is incomplete",
            why="a commit of it, or the checkpoint before it, no longer exists: Delta deletes log files after the "
            "table's delta.logRetentionDuration (30 days by default)",
            next="restore to a later version: lakeward tables health   names the versions that the log still has",
            code="LW-3521",
        )
    return TableVersion(folder, version, files, domains, metadata, protocol)


def rows_of(folder: Folder, add: Mapping[str, Any]) -> int:
    """The rows of an added file, without the deleted ones."""
    rows = _recorded_rows(add)
    if rows is None:
        rows = int(pq.read_metadata(parquet(log.absolute(folder, add["path"]))).num_rows)
    return rows - _deleted(add)


def rows_in_log(add: Mapping[str, Any]) -> int:
    """The rows of an added file by its statistics; 0 if its writer did not record them."""
    return max(0, (_recorded_rows(add) or 0) - _deleted(add))


def _recorded_rows(add: Mapping[str, Any]) -> int | None:
    rows = json.loads(add.get("stats") or "{}").get("numRecords")
    return None if rows is None else int(rows)


def _deleted(add: Mapping[str, Any]) -> int:
    return int((add.get("deletionVector") or {}).get("cardinality") or 0)


def check(table: str, now: TableVersion, to: TableVersion) -> None:
    """Check that a commit without Spark may take the table back to that version.

    Raises:
        Refused: it may not; nothing was changed.
    """
    _check_features(table, now, to)
    if (changed := _set_up_differently(now, to)) is not None:
        since = _same_since(now, to)
        raise Refused(
            f"Cannot restore Delta table {table} to version {to.version}: its {changed} changed since",
            why=f"the files of that version were written under another {changed} than the table has now",
            next=f"restore to version {since} or a later one: "
            f"lakeward tables restore {word(table)} --to {since} --dry-run",
            code="LW-3523",
        )
    again = [add for path, add in to.files.items() if _differs(add, now.files.get(path))]
    if DOMAINS in now.features and "rowTracking" in now.features and any(add.get("baseRowId") is None for add in again):
        raise _unsupported(table, "rowTracking (files of that version have no row ids)")
    check_files(table, now, to)


def check_files(table: str, now: TableVersion, to: TableVersion) -> None:
    """Check that every file that comes back still exists.

    Raises:
        Refused: VACUUM deleted some.
    """
    again = [add for path, add in to.files.items() if _differs(add, now.files.get(path))]
    needed = {str(add["path"]): _files_of(to.folder, add) for add in again}
    found = existing(to.folder, [file for files in needed.values() for file in files])
    missing = [path for path, files in needed.items() if not found.issuperset(files)]
    if not missing:
        return
    kept = now.properties.get(_RETENTION, "7 days by default").removeprefix("interval ")
    raise Refused(
        f"Cannot restore Delta table {table} to version {to.version}: {count(len(missing), 'file')} no longer exist",
        why=f"VACUUM deletes files that were removed from the table after {_RETENTION} ({kept}); of "
        f"{count(len(again), 'file')} that would come back, the first that is missing: {missing[0]}",
        next="restore to a later version, whose files still exist: lakeward tables health",
        code="LW-3522",
    )


def _files_of(folder: Folder, add: Mapping[str, Any]) -> list[Folder]:
    """The data file, and the file of its deletion vector."""
    vector = add.get("deletionVector")
    deleted = None if not vector else file_of(folder, vector)
    return [log.absolute(folder, add["path"]), *([] if deleted is None else [deleted])]


def _check_features(table: str, now: TableVersion, to: TableVersion) -> None:
    again = f"lakeward tables restore {word(table)} --to {to.version} --dry-run"
    if DOMAINS not in now.features:
        raise Refused(
            f"Cannot restore Delta table {table}: it cannot store positions",
            why="it lacks the table feature domainMetadata, so no stream of Lakeward lands in it exactly",
            next=f"{restore(table, to.version)}   restores the rows alone",
            code="LW-3526",
        )
    unknown = sorted(now.features - _SUPPORTED - {"inCommitTimestamp"})
    if now.properties.get(IN_COMMIT_TIMESTAMPS, "").lower() == "true":
        unknown.append("inCommitTimestamp")
    if unknown:
        raise _unsupported(table, ", ".join(unknown))
    if now.properties.get("delta.appendOnly", "").lower() == "true":
        unset = f"ALTER TABLE {catalog_name(table)} UNSET TBLPROPERTIES ('delta.appendOnly')"
        raise Refused(
            f"Cannot restore Delta table {table}: it is append-only",
            why="its property delta.appendOnly is true, so no commit may remove rows",
            next=f"lakeward sql --write {word(unset)}   then: {again}",
            code="LW-3525",
        )


def _unsupported(table: str, features: str) -> Refused:
    return Refused(
        f"Cannot restore Delta table {table} without Spark",
        why=f"the table has writer features that a commit without Spark does not support: {features}",
        next="rebuild the table if the source still has all records: lakeward streams rebuild STREAM --dry-run",
        code="LW-3524",
    )


def _set_up_differently(now: TableVersion, to: TableVersion) -> str | None:
    """What of the table's set-up differs between two versions; None if nothing does."""
    kinds = [
        ("table id", now.metadata.get("id"), to.metadata.get("id")),
        ("column mapping", *(column_mapping.mode(each.metadata) for each in (now, to))),
        ("schema", *(_schema(each.metadata["schemaString"]) for each in (now, to))),
        ("partitioning", *(list(each.metadata.get("partitionColumns") or ()) for each in (now, to))),
        ("constraints", *(_some(each, lambda name: name.startswith(_CONSTRAINT)) for each in (now, to))),
        ("protocol", *(_protocol(each) for each in (now, to))),
        ("features", *(_some(each, lambda name: name in _SET_UP) for each in (now, to))),
    ]
    return next((kind for kind, one, other in kinds if one != other), None)


def _schema(text: str) -> Any:
    """A schema without what says nothing about files that were written: comments, and the next value of an identity
    column, which each append moves and which stays as it is now."""
    return json.loads(text, object_hook=lambda each: {key: each[key] for key in each if key not in _OF_NO_FILE})


def _some(table: TableVersion, which: Callable[[str], bool]) -> dict[str, str]:
    return {name: value for name, value in table.properties.items() if which(name)}


def _protocol(table: TableVersion) -> tuple[Any, ...]:
    versions = (table.protocol.get("minReaderVersion"), table.protocol.get("minWriterVersion"))
    return (*versions, frozenset(table.protocol.get("readerFeatures") or ()), table.features)


def _same_since(now: TableVersion, to: TableVersion) -> int:
    """The earliest version from which on nothing of the set-up was changed."""
    delta_log = DeltaLog(now.folder)
    for version in range(now.version, to.version, -1):
        try:
            if next(delta_log.actions(version, "metaData", "protocol"), None) is not None:
                return version
        except FileNotFoundError:
            break
    return now.version


def _differs(add: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Whether a file is missing from the other version, or has another deletion vector there."""
    return other is None or _vector(add) != _vector(other)


def _vector(add: Mapping[str, Any]) -> tuple[Any, ...]:
    found = add.get("deletionVector") or {}
    return (found.get("storageType"), found.get("pathOrInlineDv"), found.get("offset"))


def actions(
    now: TableVersion, to: TableVersion, domains: Mapping[str, str | None], attempt: str
) -> list[dict[str, Any]]:
    """The actions of the commit.

    Args:
        domains: domain -> its new configuration; None removes it.
        attempt: the commit's user metadata.
    """
    at = int(time.time() * 1000)
    removed = [add for path, add in now.files.items() if _differs(add, to.files.get(path))]
    added = [add for path, add in to.files.items() if _differs(add, now.files.get(path))]
    metrics = {
        "tableSizeAfterRestore": sum(int(add["size"]) for add in to.files.values()),
        "numOfFilesAfterRestore": len(to.files),
        "numRemovedFiles": len(removed),
        "numRestoredFiles": len(added),
        "removedFilesSize": sum(int(add["size"]) for add in removed),
        "restoredFilesSize": sum(int(add["size"]) for add in added),
    }
    parameters = {"version": to.version, "timestamp": None}
    return [
        commit_info("RESTORE", now.version, attempt=attempt, parameters=parameters, metrics=metrics),
        *(_domain(name, text) for name, text in domains.items() if text is not None or name in now.domains),
        *(
            {
                "remove": {
                    "path": add["path"], "deletionTimestamp": at, "dataChange": True, "extendedFileMetadata": True,
                    **_fields(add, _KEPT),
                }
            }
            for add in removed
        ),
        *({"add": {**_fields(add, _OF_ADD), "dataChange": True}} for add in added),
    ]  # fmt: skip


def _fields(add: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: add[name] for name in names if add.get(name) is not None}
    if (vector := found.get("deletionVector")) is not None:
        found["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return found


def _domain(name: str, text: str | None) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": text or "", "removed": text is None}}


def move(table: str, now: TableVersion, to: TableVersion, domains: Mapping[str, str | None], attempt: str) -> int:
    """Commit the rollback as the version after `now`; returns the version.

    Raises:
        Refused: VACUUM deleted a file since the plan.
        Fenced: another commit came first; nothing was changed.
    """
    check_files(table, now, to)
    version = now.version + 1
    if not DeltaLog(now.folder).put(version, actions(now, to, domains, attempt)):
        raise _fenced(table, f"version {version} was committed by another writer; nothing was changed")
    committed = log.commit(now.folder, version)
    if committed is None or any(committed.domains.get(name) != text for name, text in domains.items()):
        raise _fenced(table, f"version {version} was overwritten by a writer without Lakeward's log store (ADR 45)")
    return version


def _fenced(table: str, why: str) -> Fenced:
    return Fenced(
        f"Table {table} was not restored: another commit came first", why=why, next="repeat the command", code="LW-3527"
    )


def forget(table: str, folder: Folder, domain: str, text: str) -> None:
    """Remove a domain if it still has that configuration.

    Raises:
        Transient: other writers committed first in each attempt.
    """
    for _ in range(ATTEMPTS):
        head = log.head(folder)
        domains = None if head is None else log.domains(folder, head.version)
        if head is None or domains is None or domains.get(domain) != text:
            return
        if DeltaLog(folder).put(head.version + 1, [commit_info(SETTLED, head.version), _domain(domain, None)]):
            return
    raise Transient(
        f"The restore of {table} is done, but its marker could not be removed: contention",
        why=f"other writers committed first in each of {ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3528",
    )
