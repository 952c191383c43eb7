"""Facts about an Iceberg table, through PyIceberg."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeward.connectors.commit_protocol import position
from lakeward.platform.text import instant
from lakeward.tables.facts import (
    DeleteFiles,
    File,
    PartitionFacts,
    Profile,
    Ref,
    Snapshot,
    TableFacts,
    Thresholds,
    summarise,
)
from lakeward.tables.observe.deletion_vectors import referenced
from lakeward.tables.observe.predicate import partition_condition, partition_name

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

Spot = tuple[int, tuple[Any, ...]]
_FILE_PATH: Final = 2147483546
"""Field id of `file_path` in a position delete file, by Iceberg's specification. Equal bounds mean one data file."""
_REF_AGE: Final = "history.expire.max-ref-age-ms"
Judge = Callable[[int, Mapping[str, str]], Thresholds]
"""(table bytes, table properties) -> size thresholds of its files."""


def table_facts(table: Table, judge: Judge, known: Profile | None = None) -> TableFacts:
    """The facts of a loaded table.

    Args:
        table: freshly loaded.
        judge: computes the thresholds.
        known: the profile of an earlier observation; used unchanged if the snapshot and the thresholds are the same, so
            that an unchanged table costs only its `load_table`.
    """
    metadata = table.metadata
    snapshots = tuple(_snapshot(snapshot) for snapshot in metadata.snapshots)
    head = table.current_snapshot()
    size = _total(head, "total-files-size")
    thresholds = judge(size, table.properties)
    head_id = head.snapshot_id if head else None
    fits = known is not None and known.snapshot_id == head_id and known.thresholds == thresholds
    profile = known if fits and known is not None else _profile(table, head, snapshots, thresholds)
    return TableFacts(
        table=".".join(table.name()),
        format="iceberg",
        uuid=str(metadata.table_uuid),
        location=metadata.location,
        metadata_location=table.metadata_location,
        format_version=metadata.format_version,
        snapshot_id=head_id,
        sequence=(head.sequence_number or 0) if head else 0,
        properties=dict(metadata.properties),
        refs={name: _ref(each, table.properties.get(_REF_AGE)) for name, each in metadata.refs.items()},
        snapshots=snapshots,
        metadata_files=len(metadata.metadata_log) + 1,
        streams=tuple(position.streams_of(metadata.properties)),
        profile=profile,
        columns=tuple(table.schema().column_names),
    )


def _ref(each: SnapshotRef, age_ms: str | None) -> Ref:
    """`age_ms`: the table's default age of refs without one."""
    default = int(age_ms) if age_ms is not None and age_ms.isdecimal() else None
    return Ref(
        kind=each.snapshot_ref_type.value,
        snapshot_id=each.snapshot_id,
        min_snapshots=each.min_snapshots_to_keep,
        max_age_ms=each.max_snapshot_age_ms,
        gone_after_ms=default if each.max_ref_age_ms is None else each.max_ref_age_ms,
    )


def _snapshot(each: IcebergSnapshot) -> Snapshot:
    summary = each.summary
    return Snapshot(
        id=each.snapshot_id,
        parent=each.parent_snapshot_id,
        sequence=each.sequence_number or 0,
        at=instant(each.timestamp_ms),
        operation=summary.operation.value if summary else "",
        summary=dict(summary.additional_properties) if summary else {},
    )


def _total(snapshot: IcebergSnapshot | None, key: str) -> int:
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties.get(key) or 0)


def _profile(
    table: Table, head: IcebergSnapshot | None, snapshots: tuple[Snapshot, ...], thresholds: Thresholds
) -> Profile:
    from pyiceberg.manifest import ManifestContent

    if head is None:
        return Profile(None, thresholds)
    known = {snapshot.id: snapshot for snapshot in snapshots}
    specs, schema = table.specs(), table.schema()
    files: dict[Spot, list[File]] = defaultdict(list)
    manifests = head.manifests(table.io)
    content = {each: [m for m in manifests if m.content == each] for each in ManifestContent}
    deletes, deleted = _deletes(table, content[ManifestContent.DELETES])
    for manifest in content[ManifestContent.DATA]:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            data = entry.data_file
            by = known.get(entry.snapshot_id) if entry.snapshot_id is not None else None
            files[_spot(manifest, data, specs)].append(
                File(
                    data.file_size_in_bytes,
                    data.record_count,
                    by.at if by else None,
                    _is_rewrite(by),
                    deleted.get(data.file_path, 0),
                )
            )
    partitions: list[PartitionFacts] = []
    for (spec_id, values), held in files.items():
        spec = specs[spec_id]
        name = partition_name(spec, values)
        condition = partition_condition(spec, schema, values)
        partitions.append(summarise(name, condition, held, thresholds, deletes.get((spec_id, values), DeleteFiles())))
    partitions.sort(key=lambda part: (-part.small, part.key))
    return Profile(
        snapshot_id=head.snapshot_id,
        thresholds=thresholds,
        files=sum(part.files for part in partitions),
        bytes=sum(part.bytes for part in partitions),
        records=sum(part.records for part in partitions),
        small_files=sum(part.small for part in partitions),
        delete_files=sum(each.files for each in deletes.values()),
        data_manifests=len(content[ManifestContent.DATA]),
        manifests=len(manifests),
        partitions=tuple(partitions),
    )


def _deletes(table: Table, manifests: list[ManifestFile]) -> tuple[dict[Spot, DeleteFiles], dict[str, int]]:
    """The delete files of each partition, and data file -> number of rows deleted by delete files for it alone."""
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus

    specs = table.specs()
    files: dict[Spot, int] = defaultdict(int)
    alone: dict[Spot, list[str]] = defaultdict(list)
    several: dict[Spot, int] = defaultdict(int)
    deleted: dict[str, int] = defaultdict(int)
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        vectors = any(each.data_file.file_format == FileFormat.PUFFIN for each in entries)
        about = referenced(manifest, table.io) if vectors else [None] * len(entries)
        for entry, one in zip(entries, about, strict=True):
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            data = entry.data_file
            spot = _spot(manifest, data, specs)
            files[spot] += 1
            if data.file_format == FileFormat.PUFFIN and one is not None:
                deleted[one] += data.record_count  # one for each data file: no merge needed
            if data.content != DataFileContent.POSITION_DELETES or data.file_format == FileFormat.PUFFIN:
                continue
            low, high = ((each or {}).get(_FILE_PATH) for each in (data.lower_bounds, data.upper_bounds))
            if low is None or low != high:
                several[spot] += 1
                continue
            path = low.decode()
            alone[spot].append(path)
            deleted[path] += data.record_count
    found = {
        spot: DeleteFiles(count, len(alone[spot]) - len(set(alone[spot])) + max(several[spot] - 1, 0))
        for spot, count in files.items()
    }
    return found, deleted


def _spot(manifest: ManifestFile, data: DataFile, specs: Mapping[int, PartitionSpec]) -> Spot:
    """The partition of a file: its spec id and its values."""
    spec_id = manifest.partition_spec_id
    return spec_id, tuple(data.partition[i] for i in range(len(specs[spec_id].fields)))


def _is_rewrite(by: Snapshot | None) -> bool:
    return by is not None and by.operation == "replace"
