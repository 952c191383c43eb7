"""Erases rows from every file of an Iceberg table: referenced files, and unreferenced files below its location.

1. *rewrite*: files with such rows are rewritten without them, in one commit that also updates the counts. All rows of a
file count: a row that a MERGE replaced is deleted by position, and still in the file. 2. *forget*: every snapshot
except the retained ones is removed, in one commit; before it, the files that only those reference are noted. 3.
*delete*: the noted files, and files of a rewrite that was killed. 4. *strays*: unreferenced files. After a kill, each
step finds the remaining work.
"""

from __future__ import annotations

import gzip
import itertools
import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.connectors.file_access import Entry, FileAccess
from lakeward.connectors.iceberg import fence
from lakeward.platform.errors import Fenced, Refused, expect
from lakeward.platform.failures import FailureClass, classify
from lakeward.spec.sql.names import dotted
from lakeward.tables.erase import settings
from lakeward.tables.erase.settings import other_format, unusable
from lakeward.tables.erase.where import Matching
from lakeward.tables.facts import gc_disabled
from lakeward.tables.guard.location_overlap import PLACES
from lakeward.tables.guard.locations import relative
from lakeward.tables.observe.references import references
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
    from pyiceberg.typedef import Record

MAIN = "main"
_NOTE = ".lakeward-erase-"  # ignored by Spark, Iceberg and orphan removal
_TRIES = 5
_OF_POSITIONS = {2147483546, 2147483545}  # field ids of path and position, by Iceberg's specification
_GZIP = b"\x1f\x8b"
_PARTITION_VALUES = '"partitions.'
"""Begins the key of a snapshot summary whose name has a partition's values (`write.summary.partition-limit`)."""


def obstacle(table: Table) -> str:
    """Why rows cannot be erased from this table, as a clause; empty if they can."""
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.transforms import IdentityTransform, VoidTransform

    if table.metadata.format_version > 2:
        return "its format version is 3, whose deletion vectors and row ids are not supported yet"
    if gc_disabled(table.properties):
        return "gc.enabled is false: its files may be another table's"
    for place in PLACES:
        if place in table.properties and relative(f"{table.properties[place]}/any", table.location()) is None:
            return f"{place} is outside of its location, where unreferenced files are not searched"
    if other_format(table.properties):
        return "write.format.default is not parquet: rewritten files would have another format"
    if why := unusable(table):
        return why
    # In format version 1 a dropped partition field stays in the spec, with the transform void.
    known = (IdentityTransform, VoidTransform)
    computed = not all(isinstance(field.transform, known) for field in table.spec().fields)
    for file in _entries(table):
        if computed and file.content == DataFileContent.DATA and file.spec_id != table.spec().spec_id:
            return f"it has files {settings.EARLIER}"
        if why := _values_in(file):
            return why
        if file.content == DataFileContent.DATA and file.file_format != FileFormat.PARQUET:
            return f"it has files of {file.file_format.value}; {settings.PARQUET}"
    return ""


def unwritable(table: Table, files: set[str]) -> str:
    """Why PyIceberg cannot replace some of these files of main's head, as a clause; empty if it can."""
    fields, current = table.schema().field_ids, table.spec()
    ambiguous = len({field.source_id for field in current.fields}) < len(current.fields)
    for spec_id in {task.file.spec_id for task in _tasks(table, files)}:
        placed = [] if spec_id == current.spec_id else current.fields  # its rows are placed by the current spec
        if any(field.source_id not in fields for field in (*table.specs()[spec_id].fields, *placed)):
            return f"files with such rows are {settings.DROPPED}"
        if placed and ambiguous:  # in format version 1 a field that was dropped and added again is there twice
            return f"files with such rows are {settings.EARLIER}"
    return ""


def _values_in(file: DataFile) -> str:
    """That a delete file has values of rows, as a clause; empty if it has none."""
    from pyiceberg.manifest import DataFileContent

    if file.content == DataFileContent.EQUALITY_DELETES:
        return f"it has {settings.EQUALITY}"
    if file.content == DataFileContent.POSITION_DELETES and set(file.value_counts or ()) - _OF_POSITIONS:
        return f"it has {settings.WITH_ROWS}"
    return ""


def remains(table: Table, match: Matching) -> str:
    """What another writer committed meanwhile that has, or may have, such rows, as a clause; empty for nothing."""
    if held(table, match):
        return "another writer committed such rows meanwhile"
    why = next((why for file in _entries(table) if (why := _values_in(file))), "")
    return f"another writer deleted rows meanwhile: {why}" if why else ""


def held(table: Table, match: Matching) -> set[str]:
    """The data files referenced by any snapshot that have such rows, deleted by position or not."""
    from pyiceberg.manifest import DataFileContent

    may = match.may(table.schema())
    return {
        file.file_path
        for file in _entries(table)
        if file.content == DataFileContent.DATA and may(file) and count(table, file, match)
    }


def holding(table: Table, snapshot: int, files: set[str]) -> bool:
    """Whether a snapshot references one of these files."""
    found = expect(table.metadata.snapshot_by_id(snapshot), f"snapshot {snapshot}")
    return any(
        entry.data_file.file_path in files
        for manifest in found.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )


def count(table: Table, file: DataFile, match: Matching) -> int:
    """The number of such rows in a file."""
    return int(pc.sum(match.mask(_read(table, file, match.columns))).as_py() or 0)


def live(table: Table, files: set[str], match: Matching, columns: tuple[str, ...] = ()) -> pa.Table:
    """Such rows of main's head, with these columns as far as the table has them."""
    names = [field.name for field in table.schema().fields]
    columns_read = tuple(name for name in names if name in {*columns, *match.columns})
    found = [
        rows.filter(match.mask(rows))
        for task in _tasks(table, files)
        for rows in [_scan(table, columns_read).to_table([task])]
    ]
    return pa.concat_tables(found) if found else _scan(table, columns_read).to_table([])


def rewrite(
    load: Callable[[], Table], match: Matching, own: Callable[[Table, pa.Table], Mapping[str, str]],
    columns: tuple[str, ...], access: FileAccess,
) -> int:  # fmt: skip
    """Step 1; returns the number of rows removed from main's head.

    The commit is followed by an empty one in the same transaction: only the first one's manifest lists the removed
    files with the bounds of their rows, and it is removed with that snapshot. The tags of streams move to the empty
    one: they would keep the rows. A stale commit of a stream is refused by its tag.

    Args:
        load: the table as it is now.
        own: the table and the removed rows -> properties of the same commit.
        columns: the columns that `own` needs.

    Raises:
        Fenced: concurrent commits won every time; nothing was changed.
        Refused: another writer left the table in a state that no row is erased in; nothing was changed.
    """
    from pyiceberg.exceptions import CommitFailedException, NotInstalledError, ValidationException

    for _ in range(_TRIES):
        try:
            return _rewritten(load(), match, own, columns, access)
        except (CommitFailedException, ValidationException):  # PyIceberg's own retry raises the second
            continue
        # What PyIceberg says of a table that it cannot write.
        except (ValueError, TypeError, LookupError, NotInstalledError) as error:
            table = load()
            why = obstacle(table) or unwritable(table, held(table, match))
            if not why:
                raise
            name = dotted(table.name())
            raise Refused(
                f"Rows of {name} were not erased: another writer changed the table meanwhile",
                why=why, next=settings.way_out(table, why), code="LW-3484",
            ) from error  # fmt: skip
    raise _contention(load())


def _rewritten(
    table: Table, match: Matching, own: Callable[[Table, pa.Table], Mapping[str, str]],
    columns: tuple[str, ...], access: FileAccess,
) -> int:  # fmt: skip
    """Rewrite the files of one version of the table, in one transaction."""
    files = held(table, match)
    tasks, tags = _tasks(table, files), fence.tags_of(table)
    if not tasks and not any(holding(table, table.metadata.refs[tag].snapshot_id, files) for tag in tags):
        return 0
    going = live(table, files, match, columns)
    name, counter = uuid.uuid4(), itertools.count(0)
    access.write(f"{_folder(table)}/{_NOTE}{name}", b"[]")  # every file of this commit has the name
    properties = {"lakeward.erase": str(name)}
    with warnings.catch_warnings(), table.transaction() as change:
        # PyIceberg warns of settings that only other writers have, for each file.
        warnings.filterwarnings("ignore", r"Parquet writer option", UserWarning)
        if tasks:
            with change.update_snapshot(snapshot_properties=properties).overwrite(commit_uuid=name) as step:
                _search_every_manifest(step)
                for task in tasks:
                    rows = _scan(table).to_table([task])
                    stay = rows.filter(pc.invert(match.mask(rows)))
                    step.delete_data_file(task.file)
                    for each in _written(table, task.file, stay, name, counter) if stay.num_rows else ():
                        step.append_data_file(each)
        change.update_snapshot(snapshot_properties=properties).fast_append().commit()
        fence.move_tags(change, tags)
        change.set_properties(dict(own(table, going)))
        failpoints.hit("erase-before-commit")
    failpoints.hit("erase-rewritten")
    return int(going.num_rows)


def _search_every_manifest(step: Any) -> None:
    """Find the files to delete without PyIceberg's condition on their partitions, which takes no NaN."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.typedef import KeyDefaultDict

    step.partition_filters = KeyDefaultDict(lambda _: AlwaysTrue())
    step._build_delete_files_partition_predicate = lambda: None


@dataclass(frozen=True)
class _Partition:
    """The partition of a rewritten file: its rows stay in it, whatever the transforms compute."""

    partition: Record
    spec: PartitionSpec
    schema: Schema

    def to_path(self) -> str:
        return self.spec.partition_to_path(self.partition, self.schema)


def _written(
    table: Table, file: DataFile, rows: pa.Table, name: uuid.UUID, counter: itertools.count[int]
) -> Iterator[DataFile]:
    """Rows of a file in new files of the same partition."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files, bin_pack_arrow_table, pyarrow_to_schema, write_file
    from pyiceberg.table import TableProperties, WriteTask

    spec, schema = table.spec(), table.schema()
    if file.spec_id != spec.spec_id or spec.is_unpartitioned():
        return iter(_dataframe_to_data_files(table.metadata, rows, table.io, name, counter))
    size = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES
    most = int(table.properties.get(size) or TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT)
    same: Any = _Partition(file.partition, spec, schema)
    shape = pyarrow_to_schema(rows.schema, name_mapping=schema.name_mapping)
    tasks = (
        WriteTask(name, next(counter), shape, each, partition_key=same) for each in bin_pack_arrow_table(rows, most)
    )
    return iter(write_file(table.io, table.metadata, tasks))


def forget(
    load: Callable[[], Table], drop: set[str], own: Callable[[Table], Mapping[str, str]], access: FileAccess
) -> int:
    """Step 2: keep main's head and the refs that are not dropped, without history; the number of removed snapshots.

    Args:
        load: the table as it is now.
        own: the table -> properties of the same commit.

    Raises:
        Fenced: concurrent commits won every time; nothing was changed.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        AssertTableUUID,
        RemovePartitionStatisticsUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        RemoveStatisticsUpdate,
        SetPropertiesUpdate,
    )

    for _ in range(_TRIES):
        table = load()
        metadata = table.metadata
        stay = {ref.snapshot_id for name, ref in metadata.refs.items() if name not in drop}
        expired = [snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id not in stay]
        if not expired and not drop & metadata.refs.keys():
            return 0
        left = table.metadata.model_copy(
            update={
                "snapshots": [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in stay],
                "statistics": [],
                "partition_statistics": [],
            }
        )
        trimmed = type(table)(table.name(), left, table.metadata_location, table.io, table.catalog)
        needed = {reference.path for reference in references(trimmed, set())}
        going = sorted({reference.path for reference in references(table, set())} - needed)
        access.write(f"{_folder(table)}/{_NOTE}{uuid.uuid4().hex}", json.dumps(going).encode())
        updates: list[Any] = [
            *(RemoveSnapshotRefUpdate(**{"ref-name": each}) for each in sorted(drop & metadata.refs.keys())),
            # Before the snapshots: with a snapshot its statistics go, and PyIceberg refuses to remove them again.
            *(RemoveStatisticsUpdate(**{"snapshot-id": each}) for each in _about(metadata.statistics)),
            *(
                RemovePartitionStatisticsUpdate(**{"snapshot-id": each})
                for each in _about(metadata.partition_statistics)
            ),
            *([RemoveSnapshotsUpdate(**{"snapshot-ids": expired})] if expired else []),
            SetPropertiesUpdate(updates=dict(own(table))),
        ]
        head = metadata.current_snapshot_id
        same = AssertRefSnapshotId(**{"ref": MAIN, "snapshot-id": head})
        try:
            table.catalog.commit_table(table, (AssertTableUUID(uuid=metadata.table_uuid), same), tuple(updates))
        except CommitFailedException:
            continue
        failpoints.hit("erase-forgotten")
        return len(expired)
    raise _contention(load())


def _about(statistics: Iterable[StatisticsFile | PartitionStatisticsFile]) -> list[int]:
    """The snapshots that statistics are about, each once."""
    return sorted({each.snapshot_id for each in statistics})


def delete(table: Table, access: FileAccess) -> int:
    """Step 3: delete the noted files, and files of a commit that did not happen; returns their number.

    Args:
        table: freshly loaded.
    """
    folder = _folder(table)
    notes = [name for name in access.names(folder) if name.startswith(_NOTE)]
    if not notes:
        return 0
    needed = {reference.path for reference in references(table, set())}
    location = table.location().rstrip("/")
    required = {relative(each, location) for each in needed}
    marks = [note.removeprefix(_NOTE) for note in notes]
    going = [path for note in notes for path in json.loads(access.content(f"{folder}/{note}") or b"[]")]
    going += [
        f"{location}/{path}"
        for path, each in _below(location, access)
        if path not in required and not each.name.startswith(_NOTE) and any(mark in each.name for mark in marks)
    ]
    deleted = 0
    for path in going:
        if path not in needed:
            access.remove(path)
            deleted += 1
            failpoints.hit("erase-one-deleted")
    for each in notes:
        access.remove(f"{folder}/{each}")
    return deleted


def forget_summaries(table: Table, access: FileAccess) -> int:
    """Delete earlier metadata files that name values of partitions; returns their number. No reader needs them.

    Args:
        table: freshly loaded, after `forget`.
    """
    deleted = 0
    for entry in table.metadata.metadata_log:
        content = access.content(entry.metadata_file) or b""
        text = gzip.decompress(content) if content.startswith(_GZIP) else content
        if _PARTITION_VALUES in text.decode(errors="replace"):
            access.remove(entry.metadata_file)
            deleted += 1
    return deleted


def strays(table: Table, match: Matching, access: FileAccess) -> Iterator[tuple[str, datetime, bool]]:
    """Unreferenced data files below the location with such rows, or unreadable ones: path, modification time, and
    whether it could be read. Files in the trash folder of orphan removal are included.

    Raises:
        OSError: the store does not answer: that says nothing of a file.
    """
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    location = table.location().rstrip("/")
    needed = {relative(reference.path, location) for reference in references(table, set())}
    for path, each in _below(location, access):
        if not each.name.endswith(".parquet") or path in needed:
            continue
        file = DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"{location}/{path}", file_format=FileFormat.PARQUET,
            partition=Record(), record_count=0, file_size_in_bytes=each.size,
        )  # fmt: skip
        file.spec_id = -1  # unknown partition: no value is taken from it
        try:
            found = count(table, file, match)
        except (OSError, ValueError) as error:  # incomplete, or of another format
            if classify(error=error, text=str(error)) is FailureClass.DEPENDENCY:
                raise
            yield file.file_path, each.modified, False
            continue
        if found:
            yield file.file_path, each.modified, True


def _below(location: str, access: FileAccess) -> Iterator[tuple[str, Entry]]:
    """Every file below a location, with its relative path."""
    for folder in access.walk(location):
        for file in folder.files:
            yield f"{folder.path}/{file.name}".lstrip("/"), file


def _read(table: Table, file: DataFile, columns: tuple[str, ...]) -> pa.Table:
    from pyiceberg.table import FileScanTask

    return _scan(table, columns).to_table([FileScanTask(file)])


def _scan(table: Table, columns: tuple[str, ...] = ()) -> Any:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    names = {field.name for field in table.schema().fields}
    schema = table.schema().select(*(column for column in columns if column in names)) if columns else table.schema()
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue())


def _tasks(table: Table, files: set[str]) -> list[Any]:
    return [task for task in table.scan().plan_files() if task.file.file_path in files]


def _entries(table: Table) -> Iterator[DataFile]:
    """Every file of every retained snapshot, once."""
    read: set[str] = set()
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in read:
                continue
            read.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.data_file.file_path not in seen:
                    seen.add(entry.data_file.file_path)
                    yield entry.data_file


def _folder(table: Table) -> str:
    return f"{table.location().rstrip('/')}/metadata"


def _contention(table: Table) -> Fenced:
    return Fenced(
        f"Erasing rows of {dotted(table.name())}: fenced. Concurrent commits won every time",
        why=f"The table changed during each of {_TRIES} attempts.",
        next="run the same command again",
        code="LW-4004",
    )
