"""The pointer table: shows the verified snapshot to engines that cannot read a branch.

`<table>__verified` is a catalog entry whose metadata has one snapshot, the verified one, as its main; the data files
are those of the table. Its location is beside the table's folder, so that a listing of one never finds the other. It
sets `gc.enabled=false`: DROP with PURGE, expiry and orphan removal leave the files alone.

Its snapshot gets a tag in the table before the entry points to it. Iceberg never expires a tagged snapshot, so a
pointer that could not be moved (a run died, a restore moved `verified` back) still finds its files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.platform.errors import LakewardError, Refused
from lakeward.quality.ranges.metadata import load
from lakeward.quality.results.json_values import sentence
from lakeward.spec.model.suite import POINTER_OF, pointer_name
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql.connect.session import SparkSession

    from lakeward.quality.runs.engines import Engines
    from lakeward.spec.model.suite import Suite

log = structlog.get_logger(__name__)
_OF_UUID = "lakeward.verified-of-uuid"
_TAG = "verified_table_"  # followed by the snapshot's id
_READING = ("schema.name-mapping.default",)  # table properties that decide how files are read


def update_pointer(engines: Engines, suite: Suite, verified: int | None) -> None:
    """After a run: move the pointer table to the verified snapshot, if the suite asks for one. If that fails, it keeps
    showing the previous one.
    """
    if not suite.pointer_table or verified is None:
        return
    table = str(suite.table)
    try:
        engines.prove()
        moved = follow(engines.session, engines.lake, table, verified)
    except Exception as error:  # noqa: BLE001 - the branch itself has moved; the pointer follows with the next run
        text = f"{error.what}: {error.why}" if isinstance(error, LakewardError) else f"{type(error).__name__}: {error}"
        log.warning(
            "Pointer table not moved; the next run retries",
            table=table, pointer_table=pointer_name(table), error=sentence(text),
        )  # fmt: skip
        return
    if moved:
        log.info("Pointer table moved", table=table, pointer_table=pointer_name(table), snapshot=verified)


def follow(session: SparkSession, lake: Catalog, table: str, snapshot: int) -> bool:
    """Point `<table>__verified` at the snapshot; create the entry if it does not exist.

    Returns:
        Whether it moved.

    Raises:
        Refused: a table of that name exists and is no pointer table of this table.
    """
    pointer = _load(lake, pointer_name(table))
    if pointer is not None and pointer.properties.get(POINTER_OF) != table:
        raise Refused(
            f"Cannot create the pointer table {pointer_name(table)}",
            why=f"A table of that name exists and is no pointer table of {table}.",
            next=f"rename it, or remove pointer_table from expectations/{table}.yaml",
            code="LW-5006",
        )
    main = load(lake, table)
    current = pointer.metadata.current_snapshot_id if pointer is not None else None
    if pointer is not None and current == snapshot and _same_table(pointer, main):
        return False
    _keep(session, table, main, {snapshot, current})
    point(lake, table, snapshot)
    return True


def point(lake: Catalog, table: str, snapshot: int) -> None:
    """Create the entry, or move it in one commit. Where no commit can (another table, or an older snapshot: Iceberg
    keeps its snapshot log in order of time) the entry is dropped and registered again.
    """
    main, name = load(lake, table), pointer_name(table)
    target = _metadata(main, snapshot)
    pointer = _load(lake, name)
    if pointer is not None and _reaches(pointer.metadata, target) and _same_table(pointer, main):
        _commit(lake, pointer, target)
        return
    if pointer is not None:
        lake.drop_table(name)
    _register(lake, name, main, target)


def _keep(session: SparkSession, table: str, main: Table, snapshots: set[int | None]) -> None:
    """Tag each of the snapshots that still exists; drop tags of earlier moves."""
    name, refs = in_lake(session, table), main.metadata.refs
    known = {snapshot.snapshot_id for snapshot in main.metadata.snapshots}
    required = {f"{_TAG}{snapshot}": snapshot for snapshot in snapshots if snapshot in known}
    for tag, snapshot in required.items():
        if tag not in refs:
            session.sql(f"ALTER TABLE {name} CREATE OR REPLACE TAG {quote(tag)} AS OF VERSION {snapshot:d}").collect()
    for tag in refs:
        if tag.startswith(_TAG) and tag not in required:
            session.sql(f"ALTER TABLE {name} DROP TAG IF EXISTS {quote(tag)}").collect()


def _metadata(main: Table, snapshot: int) -> TableMetadata:
    """The table's metadata with this snapshot only, as main and without a parent."""
    from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
    from pyiceberg.table.snapshots import SnapshotLogEntry

    of = main.metadata
    found = next(each for each in of.snapshots if each.snapshot_id == snapshot)
    only = found.model_copy(update={"parent_snapshot_id": None})
    ref: Any = SnapshotRef
    entry: Any = SnapshotLogEntry
    properties = {
        POINTER_OF: _name(main),
        _OF_UUID: str(of.table_uuid),
        "comment": f"verified snapshot of {_name(main)}; written by its checks, read only",
        "gc.enabled": "false",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "10",
        **{key: of.properties[key] for key in _READING if key in of.properties},
    }
    changed = {
        "table_uuid": uuid4(),
        "location": f"{of.location.rstrip('/')}__verified",
        "properties": properties,
        "last_updated_ms": only.timestamp_ms,
        "last_sequence_number": only.sequence_number or 0,
        "current_snapshot_id": snapshot,
        "snapshots": [only],
        "refs": {"main": ref(snapshot_id=snapshot, snapshot_ref_type=SnapshotRefType.BRANCH)},
        "snapshot_log": [entry(snapshot_id=snapshot, timestamp_ms=only.timestamp_ms)],
        "metadata_log": [],
        "statistics": [],
        "partition_statistics": [],
    }
    return of.model_copy(update={key: value for key, value in changed.items() if key in type(of).model_fields})


def _name(main: Table) -> str:
    return dotted(main.name())


def _reaches(now: TableMetadata, target: TableMetadata) -> bool:
    """Whether a commit leads from one metadata to the other: forward in time, and no id with two meanings."""
    same_specs = all(spec in target.partition_specs for spec in now.partition_specs)
    same_schemas = all(schema in target.schemas for schema in now.schemas)
    return (
        now.format_version == target.format_version == 2
        and target.last_updated_ms >= now.last_updated_ms
        and target.current_snapshot_id != now.current_snapshot_id
        and same_specs
        and same_schemas
    )


def _commit(lake: Catalog, pointer: Table, target: TableMetadata) -> None:
    from pyiceberg.table import update as changes

    # pydantic hides these constructors from mypy
    make: Any = changes
    now, snapshot = pointer.metadata, target.snapshots[0]
    schemas = [schema for schema in target.schemas if schema not in now.schemas]
    specs = [spec for spec in target.partition_specs if spec not in now.partition_specs]
    updates = (
        *(make.AddSchemaUpdate(schema=schema) for schema in schemas),
        make.SetCurrentSchemaUpdate(schema_id=target.current_schema_id),
        *(make.AddPartitionSpecUpdate(spec=spec) for spec in specs),
        make.AddSnapshotUpdate(snapshot=snapshot),
        make.SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot.snapshot_id),
        make.RemoveSnapshotsUpdate(snapshot_ids=[snapshot.snapshot_id for snapshot in now.snapshots]),
    )
    lake.commit_table(
        pointer,
        (
            make.AssertTableUUID(uuid=now.table_uuid),
            make.AssertRefSnapshotId(ref="main", snapshot_id=now.current_snapshot_id),
        ),
        updates,
    )


def _register(lake: Catalog, name: str, main: Table, target: TableMetadata) -> None:
    file = f"{target.location}/metadata/00000-{uuid4()}.metadata.json"
    # Not by PyIceberg's writer, which refuses format v3 because of encryption keys; these tables have none.
    text = json.dumps(target.model_dump(mode="json", by_alias=True, exclude_none=True))
    with main.io.new_output(file).create() as out:
        out.write(text.encode())
    lake.register_table(name_parts(name), file)


def _same_table(pointer: Table, main: Table) -> bool:
    return pointer.properties.get(_OF_UUID) == str(main.metadata.table_uuid)


def _load(lake: Catalog, name: str) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return lake.load_table(name_parts(name))
    except NoSuchTableError:
        return None
