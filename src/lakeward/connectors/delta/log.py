"""Reads a Delta log without a JVM: what each commit did, which stream published it, which files hold the rows.

It supports checkpoints of both versions and column mapping; deletion vectors only for callers that know them. A table
that uses more is refused with the name of the feature, so it is never read wrongly. Spark can still read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol import ancestry
from lakeward.connectors.commit_protocol.ancestry import Ancestry, Link
from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.delta import column_mapping
from lakeward.connectors.delta.deletion_vectors import deleted_rows
from lakeward.connectors.delta.delta_log import LOG as LOG
from lakeward.connectors.delta.delta_log import Action, DeltaLog
from lakeward.connectors.delta.folder import Folder, at, parquet, plain
from lakeward.platform.errors import Internal
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

_NEEDED = ("add.path", "add.partitionValues", "add.deletionVector", "metaData", "domainMetadata", "protocol")
_READ = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck", "variantType", "variantType-preview", "variantShredding-preview",
})  # fmt: skip
"""Features of a protocol under which this module reads a log rightly: what it cannot read of them it refuses itself."""
_READER_VERSION = 3
_TABLE_ACTIONS = ("metaData", "protocol")
INCOMPLETE = "its log begins with a checkpoint of a newer form, or a commit in its log is missing"
"""Why a log cannot be read without Spark."""


@dataclass(frozen=True)
class Commit:
    """The commit information of one version.

    Attributes:
        version: the version number.
        operation, parameters: as DESCRIBE HISTORY shows them.
        attempt: the user metadata of the commit: `<stream>/<seq>/<nonce>` for a batch.
        at_ms: the time of the commit by the writer's clock, in milliseconds since 1970.
        domains: the domain metadata that the commit sets; None for a removed domain.
    """

    version: int
    operation: str = "unknown"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    attempt: str | None = None
    at_ms: int = 0
    domains: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def parent(self) -> int | None:
        """The version whose rows this version continues; None if it starts without rows, -1 if it is unknown."""
        if self.operation == "RESTORE":
            target = self.parameters.get("version")
            return int(target) if target is not None and str(target).isdigit() else -1
        if self.version == 0 or "REPLACE TABLE" in self.operation or self.operation == "CLONE":
            return None
        return self.version - 1

    @property
    def link(self) -> Link:
        """The commit as a link of the table's ancestry."""
        return Link(self.version, self.version, self.parent, self.operation, self.attempt, self.attempt)


def commit(folder: Folder, version: int) -> Commit | None:
    """One commit; None if its file no longer exists (Delta deletes log files after the table's retention)."""
    info: dict[str, Any] = {}
    domains: dict[str, str | None] = {}
    try:
        for action in DeltaLog(folder).actions(version, "commitInfo", "domainMetadata"):  # file actions are not parsed
            info |= action.get("commitInfo") or {}
            if (domain := action.get("domainMetadata")) is not None:
                domains[domain["domain"]] = None if domain.get("removed") else domain["configuration"]
    except FileNotFoundError:
        return None
    return Commit(
        version=version,
        operation=str(info.get("operation", "unknown")),
        parameters=info.get("operationParameters") or {},
        attempt=info.get("userMetadata"),
        at_ms=int(info.get("timestamp") or 0),
        domains=domains,
    )


@dataclass(frozen=True)
class Head:
    """Metadata and protocol of a table at its newest version, for every table feature of Delta.

    Attributes:
        metadata, protocol: the actions of the log.
        versions: version of a commit whose file exists -> the file's time (milliseconds since 1970), oldest first.
    """

    folder: Folder
    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    versions: Mapping[int, int]

    @property
    def table_id(self) -> str:
        """The table id. A table that was removed or replaced, and created again, has another id."""
        return str(self.metadata.get("id"))

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})

    def by_column(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the log says by stored name (partition values, statistics), by the names of the columns."""
        return column_mapping.by_column(self.metadata, values)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("partitionColumns") or ())

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns, as in Delta's schema."""
        fields: list[dict[str, Any]] = json.loads(self.metadata.get("schemaString") or '{"fields": []}')["fields"]
        return fields


def head(folder: Folder) -> Head | None:
    """The newest version; None if there is no table. Reads the commits since the newest checkpoint, not the data files.

    Raises:
        Refused: only Spark can read the log.
    """
    delta_log = DeltaLog(folder)
    if not delta_log.exists:
        return None
    listing = delta_log.listing()
    if not listing.versions:
        raise delta_log.unreadable("its log has no commit")
    newest = max(listing.versions)
    base = listing.checkpoint(newest)
    latest: dict[str, Mapping[str, Any]] = {}
    try:
        for version in range(newest, base, -1):
            for action in delta_log.actions(version, *_TABLE_ACTIONS):
                latest = {**action, **latest}
            if len(latest) == len(_TABLE_ACTIONS):
                break
    except FileNotFoundError:
        raise delta_log.unreadable(INCOMPLETE) from None
    if len(latest) < len(_TABLE_ACTIONS):
        for action in delta_log.checkpoint_actions(listing.checkpoints.get(base, ()), _TABLE_ACTIONS):
            # A row of a checkpoint has every kind of action; the kinds it is not are empty.
            filled = {key: value for key, value in action.items() if value.get("id") or value.get("minReaderVersion")}
            latest = {**filled, **latest}
    if len(latest) < len(_TABLE_ACTIONS):
        raise delta_log.unreadable(INCOMPLETE)
    return Head(folder, newest, latest["metaData"], latest["protocol"], delta_log.times(listing))


def live(head: Head) -> list[Mapping[str, Any]] | None:
    """The `add` actions of the files of the newest version; None if only Spark can read the log."""
    delta_log = DeltaLog(head.folder)
    columns = ("add.path", "add.partitionValues", "add.stats", "add.deletionVector")
    added: dict[str, Mapping[str, Any]] = {}
    try:
        replayed = delta_log.replay(delta_log.listing(), head.version, columns, "add", "remove")
        for _, commit_actions in groupby(replayed, itemgetter(0)):
            actions = [action for _, action in commit_actions]
            for path in [action["remove"]["path"] for action in actions if "remove" in action]:
                added.pop(path, None)
            added |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    except (FileNotFoundError, ValueError):
        return None
    return list(added.values())


def walk(folder: Folder, head: int, at: int | None) -> Ancestry:
    """Walks from version `head` down to `at`, the version of the position.

    Without a position (`at` is None) it lists all commits that the log still has.
    """

    def look_up(version: int) -> Link | None:
        if version < 0 or (at is not None and version <= at):
            return Link(version, version, None)  # the walk ends here; older commits do not matter
        return link(folder, version)

    return ancestry.walk(head, look_up, at, at if at is not None else 0)


def link(folder: Folder, version: int) -> Link | None:
    """One commit as a link of the table's ancestry; None if its file no longer exists."""
    info = commit(folder, version)
    return None if info is None else info.link


def domains(folder: Folder, version: int) -> dict[str, str] | None:
    """The domain metadata at a version, as a process that opens the table now reads it; None if only Spark can read it.

    It is read from the newest checkpoint up to that version and from the commits after it, without a Spark job and
    without a cache.
    """
    delta_log = DeltaLog(folder)
    domains: dict[str, str] = {}
    try:
        for _, action in delta_log.replay(delta_log.listing(), version, ("domainMetadata",), "domainMetadata"):
            set_domain(domains, action)
    except FileNotFoundError:
        return None
    return domains


def set_domain(domains: dict[str, str], action: Action) -> None:
    """Apply an action to the domain metadata; other kinds of actions, and a checkpoint's empty ones, change nothing."""
    domain = action.get("domainMetadata")
    if domain is None or not domain.get("domain"):
        return
    if domain.get("removed"):
        domains.pop(domain["domain"], None)
    else:
        domains[domain["domain"]] = domain["configuration"]


@dataclass(frozen=True)
class TableLog:
    """A table at its newest version.

    Attributes:
        folder, version: the folder of the table and the version.
        files: path as in the log -> the values of the partition columns, as text.
        domains: domain -> configuration.
        metadata: id, configuration and columns of the table.
        vectors: path as in the log -> the file's deletion vector, for files that have one.
    """

    folder: Folder
    version: int
    files: Mapping[str, Mapping[str, str | None]]
    domains: Mapping[str, str]
    metadata: Mapping[str, Any]
    vectors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read(folder: Folder, *, deletion_vectors: bool = False) -> TableLog | None:
    """The newest version of the table in `folder`; None if there is no table.

    Args:
        deletion_vectors: whether files may have them: the caller reads no rows, or leaves out the deleted ones.

    Raises:
        Refused: the table uses a feature that only Spark reads.
    """
    log = DeltaLog(folder)
    if not log.exists:
        return None
    listing = log.listing()
    base = listing.checkpoint()
    following = [version for version in listing.versions if version > base]
    if following != list(range(base + 1, base + 1 + len(following))) or (base < 0 and not following):
        raise log.unreadable(INCOMPLETE)
    version = following[-1] if following else base
    files: dict[str, Mapping[str, str | None]] = {}
    vectors: dict[str, Mapping[str, Any]] = {}
    domains: dict[str, str] = {}
    metadata: Mapping[str, Any] = {}
    newest_protocol: Mapping[str, Any] = {}
    for _, of_commit in groupby(log.replay(listing, version, _NEEDED), itemgetter(0)):
        added: dict[str, Mapping[str, Any]] = {}
        for _, action in of_commit:
            if (add := action.get("add")) is not None:
                added[add["path"]] = add
            if (remove := action.get("remove")) is not None:
                files.pop(remove["path"], None)
                vectors.pop(remove["path"], None)
            set_domain(domains, action)
            metadata = action.get("metaData") or metadata
            if (protocol := action.get("protocol")) is not None and protocol.get("minReaderVersion"):
                newest_protocol = protocol
        # A new deletion vector removes and adds its file in one commit, in any order.
        if not deletion_vectors and any(add.get("deletionVector") for add in added.values()):
            raise log.unreadable("it has deletion vectors")
        files |= {path: dict(add.get("partitionValues") or {}) for path, add in added.items()}
        vectors |= {path: vector for path, add in added.items() if (vector := add.get("deletionVector"))}
    _refuse_unknown(log, newest_protocol)
    if (mapping := column_mapping.mode(metadata)) not in column_mapping.MODES:
        why = f"it maps column names in the mode {mapping}, which this version of Lakeward does not know"
        raise log.unreadable(why, column_mapping.SET_BY_OWNER)
    files = {path: column_mapping.by_column(metadata, values) for path, values in files.items()}
    return TableLog(folder, version, files, domains, metadata, vectors)


def _refuse_unknown(log: DeltaLog, protocol: Mapping[str, Any]) -> None:
    """Refuse a table whose protocol asks readers for more than is known here: it may hold other rows than it seems."""
    version = int(protocol.get("minReaderVersion") or 1)
    unknown = sorted({str(each) for each in protocol.get("readerFeatures") or ()} - _READ)
    if unknown:
        raise log.unreadable(f"its readers must know {', '.join(unknown)}, which this version of Lakeward does not")
    if version > _READER_VERSION:
        raise log.unreadable(f"its protocol is for readers of version {version}; {_READER_VERSION} is the newest known")


def scan(table: TableLog) -> Scan:
    """Reads the identity columns of the rows of the newest version, file by file, without deleted rows."""

    def rows(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        if stream is not None:
            raise Internal(
                f"The rows of stream {stream} alone cannot be read from a Delta table",
                why="only the rows of an Iceberg quarantine table name their stream",
                code="LW-3037",
            )
        topic = IDENTITY_COLUMNS["kafka"][0]
        for path, values in table.files.items():
            records = _identity(table, path, values)
            if (vector := table.vectors.get(path)) is not None:
                records = _without(records, deleted_rows(table.folder, vector))
            yield from records.filter(pc.is_in(records.column(topic), value_set=pa.array(topics))).to_batches()

    return rows


_FIELD_ID = b"PARQUET:field_id"
_TYPES = dict(zip(IDENTITY_COLUMNS["kafka"], (pa.string(), pa.int32(), pa.int64()), strict=True))


def _identity(table: TableLog, path: str, values: Mapping[str, str | None]) -> pa.Table:
    """The identity columns of one file. A partition column has one value for the whole file."""
    try:
        file = pq.ParquetFile(parquet(absolute(table.folder, path)))
    except ValueError as error:  # of Arrow, which does not say which file
        raise ValueError(f"{path} is damaged: {error}") from error
    missing = {name: stored for name, stored in _stored(table, file).items() if name not in values}
    stored = file.read(list(missing.values()))
    columns = {
        name: pa.repeat(pa.scalar(values[name]).cast(kind), file.metadata.num_rows)
        if name in values
        else stored.column(missing[name])
        for name, kind in _TYPES.items()
    }
    return pa.table(columns)


def _stored(table: TableLog, file: pq.ParquetFile) -> dict[str, str]:
    """Identity column -> its name in a file: by field id where the table says so."""
    names, ids = column_mapping.stored_names(table.metadata), column_mapping.stored_ids(table.metadata)
    by_id = {int((each.metadata or {}).get(_FIELD_ID, -1)): each.name for each in file.schema_arrow} if ids else {}
    return {name: by_id.get(ids.get(name, -2), names.get(name, name)) for name in _TYPES}


def _without(records: pa.Table, deleted: pa.Array) -> pa.Table:
    """The rows of one file, without the deleted ones."""
    numbers = pa.array(range(records.num_rows), pa.int64())
    return records.filter(pc.invert(pc.is_in(numbers, value_set=deleted)))


def absolute(folder: Folder, path: str) -> Folder:
    """The absolute path of a file. The log stores URIs, relative to the table unless the file is outside its folder."""
    return at(folder, plain(path) if urlparse(path).scheme else unquote(path))
