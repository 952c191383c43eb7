"""Facts about a table from its metadata: no data file is opened, no JVM runs.

`TableFacts` comes from one `load_table`. Its `Profile` (files per partition) needs the manifests and is stored in the
registry, so that an unchanged table is judged without reading them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.ancestry import Link, walk
from lakeward.platform.text import count, whole_number

if TYPE_CHECKING:
    from lakeward.connectors.delta.folder import Folder

MAIN = "main"
VERIFIED = "verified"  # the branch the checks move
WAP_ID = "wap.id"


def gc_disabled(properties: Mapping[str, str]) -> bool:
    """Whether a table's files may be another table's. Iceberg reads every value but `true` as false, also `no`."""
    return properties.get("gc.enabled", "true").lower() != "true"


@dataclass(frozen=True)
class Thresholds:
    """Size thresholds for files, in bytes.

    Attributes:
        target: the size of a rewritten file.
        small: a file below this is small.
        fragment: a file below this is a fragment; in hot partitions only fragments are rewritten.
        output: an output of an earlier rewrite is small only below this, because it reached its target then.
        deleted: a file with this share of deleted rows is rewritten without them.
        opened: so is a file for which a reader has to open this many equality-delete files.
    """

    target: int
    small: int
    fragment: int
    deleted: float = 0.1
    opened: int = 5

    @property
    def output(self) -> int:
        return self.target // 2


@dataclass(frozen=True)
class File:
    """One live data file: size in bytes, when its snapshot was committed (None: before the retained history).

    Attributes:
        rewritten: by a `replace` snapshot: it is the output of a compaction.
        deleted: of its records, by delete files of every kind; an estimate if `shared`.
        opened: equality-delete files that a reader opens for it. A merge of delete files keeps them.
        shared: some of `deleted` is by files that name no data file alone.
        stale: it was written with an earlier partition spec than the current one.
    """

    size: int
    records: int
    written_at: datetime | None
    rewritten: bool = False
    deleted: int = 0
    opened: int = 0
    shared: bool = False
    stale: bool = False


@dataclass(frozen=True)
class DeleteFiles:
    """The delete files of one partition, including deletion vectors.

    Attributes:
        excess: position deletes beyond one for each data file they name, and one for all that name several.
        equality: those that delete by value. Only a rewrite of the data files removes them.
    """

    files: int = 0
    excess: int = 0
    equality: int = 0

    def __add__(self, other: DeleteFiles) -> DeleteFiles:
        return DeleteFiles(self.files + other.files, self.excess + other.excess, self.equality + other.equality)


@dataclass(frozen=True)
class PartitionFacts:
    """The files of one partition.

    Attributes:
        key: readable name, `origin=EWR/time_hour_month=2013-01`; empty for an unpartitioned table.
        where: SQL condition that selects the partition; empty for an unpartitioned table, None if no condition can
            (then only the whole table can be rewritten).
        last_written: newest commit that added raw files; None: before the retained history.
        last_rewritten: newest compaction whose output still exists.
        oldest_fragment: commit of the oldest fragment; None: before the retained history, or no fragment.
        excess_deletes: delete files that a merge would remove.
        deleted, deleted_bytes: data files that should be rewritten, for their deleted rows or the equality-delete files
            that a reader opens for them.
        deleted_rows: deleted records of all its files.
        opened: the most equality-delete files that a reader opens for one file.
        shared_deletes: whether one of `deleted` is due by delete files that do not name it alone.
        stale: small files that were written with an earlier partition spec.
        makes: partitions of the current spec that the rows of the stale files go to; None: unknown.
        untouched: why no rewrite may read it; empty: it may.
    """

    key: str
    where: str | None
    files: int
    bytes: int
    records: int
    small: int
    small_bytes: int
    fragments: int
    fragment_bytes: int
    delete_files: int = 0
    last_written: datetime | None = None
    last_rewritten: datetime | None = None
    oldest_fragment: datetime | None = None
    excess_deletes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0
    deleted_rows: int = 0
    opened: int = 0
    shared_deletes: bool = False
    stale: int = 0
    makes: int | None = 0
    untouched: str = ""


@dataclass(frozen=True)
class Profile:
    """The live files of one snapshot, judged by `thresholds`.

    Attributes:
        equality_deletes: of its delete files, those that delete by value.
        outputs: paths of small files written by a rewrite, if the format does not record that (Delta).
    """

    snapshot_id: int | None
    thresholds: Thresholds
    files: int = 0
    bytes: int = 0
    records: int = 0
    small_files: int = 0
    delete_files: int = 0
    equality_deletes: int = 0
    data_manifests: int = 0
    manifests: int = 0
    partitions: tuple[PartitionFacts, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def deleted_rows(self) -> int:
        """Deleted records of the live files, by every kind of delete; an estimate where deletes name no file."""
        return sum(part.deleted_rows for part in self.partitions)

    def document(self) -> dict[str, object]:
        """Plain JSON data, read back by `profile_of`."""
        data = asdict(self)
        for partition in data["partitions"]:
            for name in ("last_written", "last_rewritten", "oldest_fragment"):
                moment = partition[name]
                partition[name] = moment.isoformat() if moment else None
        return data


@dataclass(frozen=True)
class Snapshot:
    """One retained snapshot; `summary` as Iceberg wrote it."""

    id: int
    parent: int | None
    sequence: int
    at: datetime
    operation: str
    summary: Mapping[str, str] = field(default_factory=dict)

    def count(self, key: str) -> int:
        """A number of the summary; 0 if its writer left it out, or wrote none."""
        return self.number(key) or 0

    def number(self, key: str) -> int | None:
        """A number of the summary; None if its writer left it out, or wrote none."""
        return whole_number(self.summary.get(key))


@dataclass(frozen=True)
class Ref:
    """A branch or a tag.

    Attributes:
        kind: `branch` or `tag`.
        min_snapshots, max_age_ms: for a branch: the number and the age of snapshots that expiry keeps.
        expires_after_ms: age of its snapshot after which expiry drops the ref; None: never.
    """

    kind: str
    snapshot_id: int
    min_snapshots: int | None = None
    max_age_ms: int | None = None
    expires_after_ms: int | None = None


@dataclass(frozen=True)
class TableFacts:
    """The current state of a table.

    Attributes:
        table: `namespace.table`.
        metadata_location: changes with every commit.
        snapshot_id, sequence: main's head; None and 0 without any.
        streams: streams that have a position in the table.
        catalog: the name of the lake's catalog; of a Delta table: `spark_catalog`.
        tombstones: for a Delta table: file -> when it was removed; it stays in the folder until a VACUUM.
        columns: column names, nested ones with dots.
        partition_fields: names of the partition fields of every spec that the table had.
        folder: for a Delta table: `location`, as it is read.
    """

    table: str
    format: str
    uuid: str
    location: str
    metadata_location: str
    format_version: int
    snapshot_id: int | None
    sequence: int
    properties: Mapping[str, str]
    refs: Mapping[str, Ref]
    snapshots: tuple[Snapshot, ...]
    metadata_files: int
    streams: tuple[str, ...]
    profile: Profile
    catalog: str
    tombstones: Mapping[str, datetime] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    partition_fields: tuple[str, ...] = ()
    folder: Folder | None = field(default=None, compare=False, repr=False)

    @property
    def delta_folder(self) -> Folder:
        """The folder of a Delta table."""
        if self.folder is None:
            raise ValueError(f"{self.table} has no folder: it is no Delta table")
        return self.folder

    def ambiguous_columns(self) -> str:
        """That Spark cannot read the table: two of its columns are one to it. A clause; empty if it can."""
        spelled: dict[str, str] = {}
        for name in self.columns:
            if (other := spelled.setdefault(name.lower(), name)) != name:
                return (
                    f"Spark cannot read the table: columns {other} and {name} differ in case only. Rename one of them "
                    "with the engine that made them"
                )
        return ""

    def by_id(self) -> dict[int, Snapshot]:
        """Snapshot id -> snapshot."""
        return {snapshot.id: snapshot for snapshot in self.snapshots}

    def main(self) -> list[Snapshot]:
        """Main's retained snapshots, head first, to the first one or to where history is expired."""
        return self.ancestors(self.snapshot_id)

    def ancestors(self, snapshot_id: int | None) -> list[Snapshot]:
        """The retained chain from `snapshot_id` down."""
        known = self.by_id()
        chain: list[Snapshot] = []
        current = known.get(snapshot_id) if snapshot_id is not None else None
        while current is not None and len(chain) <= len(known):
            chain.append(current)
            current = known.get(current.parent) if current.parent is not None else None
        return chain

    def continues(self, before: TableFacts) -> bool:
        """Whether main still contains the earlier head: as an ancestor, or expired below the oldest one."""
        known = self.by_id()

        def look_up(snapshot_id: int) -> Link | None:
            found = known.get(snapshot_id)
            return None if found is None else Link(found.id, found.sequence, found.parent, found.operation)

        return walk(self.snapshot_id, look_up, before.snapshot_id, before.sequence).right

    def dangling(self) -> str:
        """That a branch or tag is on a snapshot that the metadata lacks, as a clause; empty if none is.

        The files of that snapshot are not lost yet, and nothing in the metadata names them.
        """
        known = self.by_id()
        lost = sorted((name, ref.snapshot_id) for name, ref in self.refs.items() if ref.snapshot_id not in known)
        if not lost:
            return ""
        name, snapshot = lost[0]
        more = f", and {count(len(lost) - 1, 'more ref')}" if len(lost) > 1 else ""
        return (
            f"{name} is on snapshot {snapshot}, which the metadata does not have{more}: its files may be needed to "
            "repair the table"
        )

    def outlived(self, now: datetime) -> set[str]:
        """The refs whose maximum age has passed at `now`: the next expiry drops them, with the snapshots only they
        keep."""
        known = self.by_id()
        return {
            name
            for name, ref in self.refs.items()
            if name != MAIN and ref.expires_after_ms is not None and (on := known.get(ref.snapshot_id)) is not None
            and now - on.at > timedelta(milliseconds=ref.expires_after_ms)
        }  # fmt: skip

    @property
    def head(self) -> Snapshot | None:
        """Main's head."""
        return self.by_id().get(self.snapshot_id) if self.snapshot_id is not None else None

    @property
    def last_commit(self) -> datetime | None:
        """When the newest snapshot was committed, staged ones included."""
        return max((snapshot.at for snapshot in self.snapshots), default=None)

    def document(self, now: datetime) -> dict[str, object]:
        """The record in the registry: the figures of `tables health`, and the profile."""
        recent = [s for s in self.snapshots if (now - s.at).total_seconds() <= 3600]
        return {
            "format": self.format,
            "uuid": self.uuid,
            "metadata_location": self.metadata_location,
            "files": self.profile.files,
            "small_files": self.profile.small_files,
            "size_bytes": self.profile.bytes,
            "records": self.profile.records,
            "delete_files": self.profile.delete_files,
            "deleted_rows": self.profile.deleted_rows,
            "manifests": self.profile.manifests,
            "snapshots": len(self.snapshots),
            "metadata_files": self.metadata_files,
            "last_commit": self.last_commit.isoformat() if self.last_commit else None,
            "commits_last_hour": len(recent),
            "rewrites_last_hour": sum(s.operation == "replace" for s in recent),
            "streams": list(self.streams),
            "profile": self.profile.document(),
        }


def _much_deleted(file: File, thresholds: Thresholds) -> bool:
    return (file.deleted > 0 and file.deleted >= thresholds.deleted * file.records) or file.opened >= thresholds.opened


def summarise(
    key: str, where: str | None, files: Iterable[File], thresholds: Thresholds, deletes: DeleteFiles = DeleteFiles()
) -> PartitionFacts:
    """The facts of one partition from its files. Stale files are said to make one partition."""
    held = list(files)
    small = [f for f in held if f.size < (thresholds.output if f.rewritten else thresholds.small)]
    fragments = [f for f in held if f.size < thresholds.fragment]
    raw = [f.written_at for f in held if not f.rewritten and f.written_at is not None]
    rewrites = [f.written_at for f in held if f.rewritten and f.written_at is not None]
    begun = [f.written_at for f in fragments if f.written_at is not None]
    deleted = [f for f in held if _much_deleted(f, thresholds)]
    return PartitionFacts(
        key=key,
        where=where,
        files=len(held),
        bytes=sum(f.size for f in held),
        records=sum(f.records for f in held),
        small=len(small),
        small_bytes=sum(f.size for f in small),
        fragments=len(fragments),
        fragment_bytes=sum(f.size for f in fragments),
        delete_files=deletes.files,
        last_written=max(raw, default=None),
        last_rewritten=max(rewrites, default=None),
        oldest_fragment=min(begun, default=None) if len(begun) == len(fragments) else None,
        excess_deletes=deletes.excess,
        deleted=len(deleted),
        deleted_bytes=sum(f.size for f in deleted),
        deleted_rows=sum(f.deleted for f in held),
        opened=max((f.opened for f in held), default=0),
        shared_deletes=any(f.shared for f in deleted),
        stale=sum(f.stale for f in small),
        makes=int(any(f.stale for f in small)),
    )


def profile_of(document: Mapping[str, Any]) -> Profile:
    """The profile `Profile.document` wrote."""
    partitions = []
    for data in document["partitions"]:
        moments = {
            name: datetime.fromisoformat(data[name]) if data[name] else None
            for name in ("last_written", "last_rewritten", "oldest_fragment")
        }
        partitions.append(PartitionFacts(**{**data, **moments}))
    rest = {name: value for name, value in document.items() if name not in ("thresholds", "partitions", "outputs")}
    return Profile(
        **rest,
        thresholds=Thresholds(**document["thresholds"]),
        partitions=tuple(partitions),
        outputs=tuple(document.get("outputs", ())),
    )
