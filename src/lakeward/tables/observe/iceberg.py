"""Facts about an Iceberg table, through PyIceberg."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg.qualified import prefix_of
from lakeward.platform.text import count, instant, whole_number
from lakeward.spec.sql.names import dotted
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
from lakeward.tables.observe.deletes import Deletes, Held, OfFile, Spot, deletes_of, spot
from lakeward.tables.observe.predicate import partition_condition, partition_name, voided
from lakeward.tables.observe.respec import Targets, partitions_made, targets
from lakeward.tables.partition_values import comparable

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

_REF_AGE: Final = "history.expire.max-ref-age-ms"
_NEVER_MS: Final = 100 * 365 * 86_400_000
"""A century. Iceberg writes `never` as 2**63 - 1, which is too large for dates."""
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
    profile = known if fits and known is not None else _profile(table, head, snapshots, thresholds, known)
    return TableFacts(
        table=dotted(table.name()),
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
        catalog=prefix_of(table),
        partition_fields=tuple(sorted({field.name for spec in metadata.partition_specs for field in spec.fields})),
    )


def _ref(each: SnapshotRef, age_ms: str | None) -> Ref:
    """`age_ms`: the table's default age of refs without one."""
    default = int(age_ms) if age_ms is not None and age_ms.isdecimal() else None
    expires, keeps = default if each.max_ref_age_ms is None else each.max_ref_age_ms, each.max_snapshot_age_ms
    return Ref(
        kind=each.snapshot_ref_type.value,
        snapshot_id=each.snapshot_id,
        min_snapshots=each.min_snapshots_to_keep,
        max_age_ms=None if keeps is None else min(keeps, _NEVER_MS),
        expires_after_ms=None if expires is None or expires >= _NEVER_MS else expires,
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
    return whole_number(snapshot.summary.additional_properties.get(key)) or 0


def _profile(
    table: Table,
    head: IcebergSnapshot | None,
    snapshots: tuple[Snapshot, ...],
    thresholds: Thresholds,
    before: Profile | None,
) -> Profile:
    from pyiceberg.manifest import ManifestContent

    if head is None:
        return Profile(None, thresholds)
    known = {snapshot.id: snapshot for snapshot in snapshots}
    manifests = head.manifests(table.io)
    content = {each: [m for m in manifests if m.content == each] for each in ManifestContent}
    specs = table.specs()
    held: list[Held] = []
    for manifest in content[ManifestContent.DATA]:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            by = known.get(entry.snapshot_id) if entry.snapshot_id is not None else None
            sequence = entry.sequence_number or 0
            added = sequence if entry.file_sequence_number is None else entry.file_sequence_number
            held.append(Held(entry.data_file, spot(manifest, entry.data_file, specs), sequence, by, added))
    deletes = deletes_of(table, content[ManifestContent.DELETES], held)
    partitions = sorted(_partitions(table, held, deletes, thresholds, before), key=lambda part: (-part.small, part.key))
    return Profile(
        snapshot_id=head.snapshot_id,
        thresholds=thresholds,
        files=sum(part.files for part in partitions),
        bytes=sum(part.bytes for part in partitions),
        records=sum(part.records for part in partitions),
        small_files=sum(part.small for part in partitions),
        delete_files=sum(each.files for each in deletes.spots.values()),
        equality_deletes=sum(each.equality for each in deletes.spots.values()),
        data_manifests=len(content[ManifestContent.DATA]),
        manifests=len(manifests),
        partitions=tuple(partitions),
    )


def _partitions(
    table: Table, held: list[Held], deletes: Deletes, thresholds: Thresholds, before: Profile | None
) -> Iterator[PartitionFacts]:
    """Files by the partition that a rewrite writes them to; files that may go to several, by their own partition."""
    current, schema = table.spec(), table.schema()
    voids = voided(table.specs().values())
    times = Counter(each.data.file_path for each in held)
    repeated = {path for path, number in times.items() if number > 1} if len(times) < len(held) else set()
    groups: dict[Spot, list[Held]] = defaultdict(list)
    spread: dict[Spot, list[tuple[Held, Targets]]] = defaultdict(list)
    shape: dict[Spot, tuple[Any, ...]] = {}
    left = dict(deletes.spots)
    of_group: dict[Spot, DeleteFiles] = defaultdict(DeleteFiles)
    for each in held:
        spec_id, values = each.spot
        if spec_id == current.spec_id:
            to = each.spot
        else:
            where_to = targets(each.data, table.specs()[spec_id], values, current, schema)
            if where_to.one is None:
                spread[each.spot].append((each, where_to))
                continue
            to = current.spec_id, where_to.one
        key = to[0], tuple(map(comparable, to[1]))
        groups[key].append(each)
        if key not in shape or spec_id == current.spec_id:
            shape[key] = to[1]
        of_group[key] += left.pop(each.spot, DeleteFiles())
    for key, files in groups.items():
        values = shape[key]
        name = partition_name(current, values)
        condition = partition_condition(current, schema, values, voids)
        made = [_file(each, deletes, stale=each.spot[0] != current.spec_id) for each in files]
        part = summarise(name, condition, made, thresholds, of_group[key])
        yield replace(part, untouched=_untouched(files, repeated))
    known = {part.key: part for part in before.partitions} if before is not None else {}
    for (spec_id, values), files_to in spread.items():
        spec = table.specs()[spec_id]
        name = "/".join(part for part in (f"spec {spec_id}", partition_name(spec, values)) if part)
        condition = partition_condition(spec, schema, values, voids) or None  # nothing selects unpartitioned files
        made = [_file(each, deletes, stale=True) for each, _ in files_to]
        part = summarise(name, condition, made, thresholds, left.pop((spec_id, values), DeleteFiles()))
        yield replace(
            part,
            makes=_makes(table, part, files_to, known.get(name), thresholds),
            untouched=_untouched([each for each, _ in files_to], repeated),
        )


def _untouched(files: list[Held], repeated: set[str]) -> str:
    """Why a partition must not be rewritten, as a phrase; empty: it may be. `repeated`: paths named more than once."""
    found = sorted({each.data.file_path for each in files} & repeated) if repeated else []
    if not found:
        return ""
    return (
        f"{count(len(found), 'data file')} named more than once (as by a second add_files), e.g. {found[0]}: readers "
        "see the rows as often, and a rewrite takes a file out by its path, once for all. Roll back what added it "
        "again, or INSERT OVERWRITE the table with the rows it should have"
    )


def _makes(
    table: Table,
    part: PartitionFacts,
    files: list[tuple[Held, Targets]],
    known: PartitionFacts | None,
    thresholds: Thresholds,
) -> int | None:
    """The partitions that a rewrite of its small files makes, as counted before if the files are the same."""
    measures = [
        (each.files, each.records, each.bytes, each.small) for each in (part, known) if each is not None and each.stale
    ]
    if known is not None and known.makes is not None and measures[0:1] == measures[1:2]:
        return known.makes
    small = [(each.data, to) for each, to in files if each.data.file_size_in_bytes < thresholds.small]
    return partitions_made(table, small)


def _file(each: Held, deletes: Deletes, *, stale: bool) -> File:
    of = deletes.files.get(each.data.file_path, OfFile())
    by = each.by
    return File(
        each.data.file_size_in_bytes,
        each.data.record_count,
        by.at if by else None,
        by is not None and by.operation == "replace",
        min(of.rows, each.data.record_count),
        of.equality,
        of.shared,
        stale,
    )
