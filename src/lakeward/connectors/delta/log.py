"""A Delta table's own log, read without a JVM: what each commit did, who published it, which files hold the rows.

Only what Lakeward asks: classic checkpoints, no deletion vectors, no column mapping. A table that uses more is refused
by name instead of being read wrongly; Spark reads it as ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol import ancestry
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Link
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.delta.delta_log import LOG as LOG
from lakeward.connectors.delta.delta_log import Action, DeltaLog
from lakeward.platform.errors import Internal
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

_NEEDED = ("add.path", "add.partitionValues", "add.deletionVector", "metaData", "domainMetadata")
_WHO = ("metaData", "protocol")
_HOLE = "its log begins with a checkpoint of a newer form, or has a hole"


@dataclass(frozen=True)
class Commit:
    """What one commit says of itself.

    Attributes:
        version: its number.
        operation, parameters: as Delta's history shows them.
        attempt: the writer's own word for it: `<stream>/<seq>/<nonce>` of a batch.
        at_ms: when, by the writer's clock, milliseconds since 1970.
        domains: the domain metadata it sets, None for one it removes.
    """

    version: int
    operation: str = "unknown"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    attempt: str | None = None
    at_ms: int = 0
    domains: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def parent(self) -> int | None:
        """The version whose rows this one goes on from; None if it begins anew, -1 if that cannot be told."""
        if self.operation == "RESTORE":
            target = self.parameters.get("version")
            return int(target) if target is not None and str(target).isdigit() else -1
        if self.version == 0 or "REPLACE TABLE" in self.operation or self.operation == "CLONE":
            return None
        return self.version - 1

    @property
    def link(self) -> Link:
        """As a link of the chain of what is in the table."""
        return Link(self.version, self.version, self.parent, self.operation, self.attempt, self.attempt)


def commit(folder: Path, version: int) -> Commit | None:
    """One commit; None where its file is gone (Delta cleans its log up after the table's retention)."""
    about: dict[str, Any] = {}
    domains: dict[str, str | None] = {}
    try:
        for action in DeltaLog(folder).actions(version, "commitInfo", "domainMetadata"):  # its files are not parsed
            about |= action.get("commitInfo") or {}
            if (domain := action.get("domainMetadata")) is not None:
                domains[domain["domain"]] = None if domain.get("removed") else domain["configuration"]
    except FileNotFoundError:
        return None
    return Commit(
        version=version,
        operation=str(about.get("operation", "unknown")),
        parameters=about.get("operationParameters") or {},
        attempt=about.get("userMetadata"),
        at_ms=int(about.get("timestamp") or 0),
        domains=domains,
    )


@dataclass(frozen=True)
class Head:
    """Who a table is at its newest version, whatever forms of Delta it uses.

    Attributes:
        metadata, protocol: as the log has them.
        versions: commits whose file is kept -> when (milliseconds since 1970, the time of its file), oldest first.
    """

    folder: Path
    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    versions: Mapping[int, int]

    @property
    def table_id(self) -> str:
        """The table's own id: another one after it was removed, or replaced, and made again."""
        return str(self.metadata.get("id"))

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("partitionColumns") or ())

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns, as Delta's schema has them."""
        found: list[dict[str, Any]] = json.loads(self.metadata.get("schemaString") or '{"fields": []}')["fields"]
        return found


def head(folder: Path) -> Head | None:
    """The newest version; None if there is no table. Reads the commits since the newest checkpoint, no list of files.

    Raises:
        Refused: only Spark can tell.
    """
    files = DeltaLog(folder)
    if not files.exists:
        return None
    listing = files.listing()
    if not listing.versions:
        raise files.unreadable("its log has no commit left")
    newest = max(listing.versions)
    base = listing.checkpoint(newest)
    said: dict[str, Mapping[str, Any]] = {}
    try:
        for version in range(newest, base, -1):
            for action in files.actions(version, *_WHO):
                said = {**action, **said}
            if len(said) == len(_WHO):
                break
    except FileNotFoundError:
        raise files.unreadable(_HOLE) from None
    if len(said) < len(_WHO):
        for action in files.checkpoint_actions(listing.checkpoints.get(base, ()), _WHO):
            who = {key: value for key, value in action.items() if value.get("id") or value.get("minReaderVersion")}
            said = {**who, **said}
    if len(said) < len(_WHO):
        raise files.unreadable(_HOLE)
    return Head(folder, newest, said["metaData"], said["protocol"], files.times(listing))


def live(head: Head) -> list[Mapping[str, Any]] | None:
    """The `add` actions of the files the newest version has; None where only Spark can tell."""
    files = DeltaLog(head.folder)
    wanted = ("add.path", "add.partitionValues", "add.stats", "add.deletionVector")
    found: dict[str, Mapping[str, Any]] = {}
    try:
        for _, said in groupby(files.replay(files.listing(), head.version, wanted, "add", "remove"), itemgetter(0)):
            actions = [action for _, action in said]
            for path in [each["remove"]["path"] for each in actions if "remove" in each]:
                found.pop(path, None)
            found |= {each["add"]["path"]: each["add"] for each in actions if "add" in each}
    except (FileNotFoundError, ValueError):
        return None
    return list(found.values())


def walk(folder: Path, head: int, at: int | None) -> Ancestry:
    """From version `head` down to `at`, the position's; None: there is no position, and all that is left is listed."""

    def look_up(version: int) -> Link | None:
        if version < 0 or (at is not None and version <= at):
            return Link(version, version, None)  # there the walk ends, whatever stands below it
        return link(folder, version)

    return ancestry.walk(head, look_up, at, at if at is not None else 0)


def link(folder: Path, version: int) -> Link | None:
    """One commit as a link of the chain; None where its file is gone."""
    found = commit(folder, version)
    return None if found is None else found.link


def domains(folder: Path, version: int) -> dict[str, str] | None:
    """The domain metadata at a version, as anybody who opens the table now reads it; None where only Spark can tell.

    The newest checkpoint up to there and the commits behind it, from the disk: no job, and no cache of anybody's.
    """
    files = DeltaLog(folder)
    found: dict[str, str] = {}
    try:
        for _, action in files.replay(files.listing(), version, ("domainMetadata",), "domainMetadata"):
            _set_domain(found, action)
    except FileNotFoundError:
        return None
    return found


def _set_domain(found: dict[str, str], action: Action) -> None:
    if (domain := action.get("domainMetadata")) is None:
        return
    if domain.get("removed"):
        found.pop(domain["domain"], None)
    else:
        found[domain["domain"]] = domain["configuration"]


@dataclass(frozen=True)
class TableLog:
    """A table at its newest version.

    Attributes:
        folder, version: where, and which.
        files: path as the log has it -> the values of the partition columns, as text.
        domains: domain -> configuration.
        metadata: the table's own: id, configuration, columns.
    """

    folder: Path
    version: int
    files: Mapping[str, Mapping[str, str | None]]
    domains: Mapping[str, str]
    metadata: Mapping[str, Any]


def read(folder: Path) -> TableLog | None:
    """The newest version of the table in `folder`; None if there is none.

    Raises:
        Refused: the table uses something only Spark reads here.
    """
    log = DeltaLog(folder)
    if not log.exists:
        return None
    listing = log.listing()
    base = listing.checkpoint()
    following = [version for version in listing.versions if version > base]
    if following != list(range(base + 1, base + 1 + len(following))) or (base < 0 and not following):
        raise log.unreadable(_HOLE)
    version = following[-1] if following else base
    files: dict[str, Mapping[str, str | None]] = {}
    domains: dict[str, str] = {}
    metadata: Mapping[str, Any] = {}
    for _, action in log.replay(listing, version, _NEEDED):
        if (add := action.get("add")) is not None:
            if add.get("deletionVector"):
                raise log.unreadable("it has deletion vectors")
            files[add["path"]] = dict(add.get("partitionValues") or {})
        if (gone := action.get("remove")) is not None:
            files.pop(gone["path"], None)
        _set_domain(domains, action)
        metadata = action.get("metaData") or metadata
    configuration = dict(metadata.get("configuration") or {})
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise log.unreadable("it maps column names")
    return TableLog(folder, version, files, domains, metadata)


def scan(table: TableLog) -> Scan:
    """Reads the identity columns of the newest version's rows, file by file."""

    def rows(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        if stream is not None:
            raise Internal(
                f"Rows of stream {stream} alone were asked for",
                why="only an Iceberg quarantine table names streams",
                code="LW-3037",
            )
        topic = IDENTITY_COLUMNS["kafka"][0]
        for path, values in table.files.items():
            found = _identity(table.folder, path, values)
            yield from found.filter(pc.is_in(found.column(topic), value_set=pa.array(topics))).to_batches()

    return rows


_TYPES = dict(zip(IDENTITY_COLUMNS["kafka"], (pa.string(), pa.int32(), pa.int64()), strict=True))


def _identity(folder: Path, path: str, values: Mapping[str, str | None]) -> pa.Table:
    """The identity columns of one file; those the table is partitioned by are the same in every row of it."""
    file = pq.ParquetFile(absolute(folder, path))
    inside = file.read([name for name in _TYPES if name not in values])
    columns = {
        name: pa.repeat(pa.scalar(values[name]).cast(kind), inside.num_rows) if name in values else inside.column(name)
        for name, kind in _TYPES.items()
    }
    return pa.table(columns)


def absolute(folder: Path, path: str) -> Path:
    """The log has paths as URIs, relative to the table unless the file came from elsewhere."""
    parsed = urlparse(path)
    return folder / unquote(parsed.path if parsed.scheme else path)
