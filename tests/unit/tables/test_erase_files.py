"""Rows are erased from every file of a table whose columns, fields and partitions have any name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, UUIDType

from lakeward.connectors.file_access import FileAccess
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Lake
from lakeward.tables.erase import files, settings
from lakeward.tables.erase.fields import written
from lakeward.tables.erase.settings import way_out
from lakeward.tables.erase.where import parse
from lakeward.telemetry import failpoints

COLUMNS = ("geo.lat", ".hidden", "[0]", 'a`b"c', "größe e\u0301 😀", "select", "a;--b", "100%", "{x} \\y")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    made.create_namespace("n")
    yield made
    made.close()


def batch(keys: range) -> pa.Table:
    """Rows whose every column and innermost field is the row's key."""
    rows = [
        {**dict.fromkeys(COLUMNS, key), "at.x": {".in ner": {"[k]": key, "text": f"t{key}"}, "other": key}}
        for key in keys
    ]
    return pa.Table.from_pylist(rows)


def erase(load: Any, where: Any, access: FileAccess) -> int:
    """Every step on one table, as the command does them."""
    removed = files.rewrite(load, where, lambda table, rows: {}, (), access)
    files.forget(load, set(), lambda table: {}, access)
    files.delete(load(), access)
    files.forget_summaries(load(), access)
    return removed


@pytest.mark.parametrize("in_main", [True, False])
def test_the_tag_of_a_stream_moves_to_the_table_without_the_rows(catalog: SqlCatalog, in_main: bool) -> None:
    """In a REST catalog a stream has a tag on its newest snapshot, which keeps the rows of that."""
    table = catalog.create_table("n.t", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    landed = table.metadata.current_snapshot_id
    for tag in ("lakeward.stream.s", "lakeward.stream.of_nobody"):
        table.manage_snapshots().create_tag(landed, tag).commit()
    with table.transaction() as change:
        change.set_properties({"lakeward.stream.s.position": "{}"})
    if not in_main:
        table.delete("id = 1")

    def load() -> Any:
        return catalog.load_table("n.t")

    where = parse("id = 1", load().schema(), "n.t")
    removed = files.rewrite(load, where, lambda table, rows: {}, (), FileAccess())
    refs = load().metadata.refs
    assert removed == (1 if in_main else 0)
    assert refs["lakeward.stream.s"].snapshot_id == load().metadata.current_snapshot_id != landed
    assert refs["lakeward.stream.of_nobody"].snapshot_id == landed, "no stream has a position by it"
    assert load().scan().to_arrow()["id"].to_pylist() == [2]


def test_no_statistics_file_and_no_older_metadata_file_keeps_a_value(catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("mail", pa.string())])
    options = {"write.summary.partition-limit": "100", "write.metadata.compression-codec": "none"}
    table = catalog.create_table("n.t", schema, properties=options)
    with table.update_spec() as change:
        change.add_identity("mail")
    for first in (1, 2):
        catalog.load_table("n.t").append(pa.table({"id": [first, 9], "mail": ["annax", "bo"]}, schema))

    def load() -> Any:
        return catalog.load_table("n.t")

    root = Path(table.location().removeprefix("file://"))
    pq.write_table(pa.table({"mail": ["annax"]}), root / "metadata" / "by-partition.stats")
    file = {"statistics-path": f"{root}/metadata/by-partition.stats", "file-size-in-bytes": 1}
    found = PartitionStatisticsFile(**{"snapshot-id": load().metadata.current_snapshot_id, **file})
    with load().transaction() as change:
        change._apply((SetPartitionStatisticsUpdate(**{"partition-statistics": found}),))
    for snapshot in load().metadata.snapshots:  # of a snapshot that goes too
        (root / "metadata" / f"{snapshot.snapshot_id}.stats").write_bytes(b"PFA1 annax")
        file = {"statistics-path": f"{root}/metadata/{snapshot.snapshot_id}.stats", "file-size-in-bytes": 10}
        about = {"snapshot-id": snapshot.snapshot_id, "file-footer-size-in-bytes": 0, "blob-metadata": []}
        with load().update_statistics() as change:
            change.set_statistics(StatisticsFile(**file, **about))
    where = parse("mail = 'annax'", load().schema(), "n.t")
    assert erase(load, where, FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))) == 2
    assert load().metadata.partition_statistics == load().metadata.statistics == []
    assert load().scan().to_arrow().num_rows == 2
    assert [file.name for file in root.rglob("*") if file.is_file() and b"annax" in file.read_bytes()] == []


@pytest.mark.parametrize("rows", [False, True])
def test_position_deletes_with_the_deleted_rows_are_an_obstacle(catalog: SqlCatalog, rows: bool) -> None:
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    columns = (2147483546, 2147483545, *((2147483544, 1) if rows else ()))  # path, position, row and its column
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=f"{table.location()}/data/d.parquet",
        file_format=FileFormat.PARQUET, partition=Record(), record_count=1, file_size_in_bytes=1,
        value_counts=dict.fromkeys(columns, 1),
    )  # fmt: skip
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    assert ("contain the deleted rows" in files.obstacle(catalog.load_table("n.t"))) == rows


@pytest.mark.parametrize(
    ("properties", "version", "begin"),
    [
        ({}, 3, 'lakeward sql --write "DELETE FROM lake.n.t WHERE CONDITION"   with the condition of this command'),
        ({"gc.enabled": "no"}, 2, "lakeward sql --write \"ALTER TABLE lake.n.t SET TBLPROPERTIES ('gc.enabled'"),
        ({"write.format.default": "ORC"}, 2, "lakeward sql --write \"ALTER TABLE lake.n.t UNSET TBLPROPERTIES ('w"),
        ({"write.parquet.page-row-limit": "0"}, 2, 'lakeward sql --write "ALTER TABLE lake.n.t UNSET'),
    ],
)
def test_a_table_whose_rows_cannot_be_erased_has_a_next_step(
    catalog: SqlCatalog, properties: dict[str, str], version: int, begin: str
) -> None:
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]), properties=properties)
    table.metadata = table.metadata.model_copy(update={"format_version": version})
    assert files.obstacle(table)
    assert way_out(table).startswith(begin), way_out(table)


@pytest.mark.parametrize("why", [settings.EARLIER, settings.DROPPED, settings.EQUALITY, settings.WITH_ROWS, "it has "
                                 f"files of ORC; {settings.PARQUET}"])  # fmt: skip
def test_files_that_cannot_be_rewritten_singly_are_rewritten_as_a_whole(catalog: SqlCatalog, why: str) -> None:
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    assert way_out(table, why).startswith('lakeward sql --write "CALL lake.system.rewrite_data_files(')
    assert "tables why" not in way_out(table, why)


def delete_file(table: Any, content: DataFileContent, columns: dict[int, int]) -> None:
    """Commit a delete file that names nothing."""
    file = DataFile.from_args(
        content=content, file_path=f"{table.location()}/data/{len(columns)}.parquet", file_format=FileFormat.PARQUET,
        partition=Record(), record_count=1, file_size_in_bytes=1, value_counts=columns, equality_ids=[1],
    )  # fmt: skip
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def equality(table: Any) -> None:
    delete_file(table, DataFileContent.EQUALITY_DELETES, {1: 1})


def test_a_table_that_another_writer_makes_unfit_meanwhile_is_refused_and_unchanged(catalog: SqlCatalog) -> None:
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))

    def load() -> Any:
        return catalog.load_table("n.t")

    where, access = parse("id = 2", load().schema(), "n.t"), FileAccess(Lake(warehouse=catalog.properties["warehouse"]))
    done: list[int] = []

    def once() -> None:
        if not done:
            done.append(1)
            equality(load())

    with failpoints.on("erase-before-commit", once), pytest.raises(Refused) as refused:
        files.rewrite(load, where, lambda table, rows: {}, (), access)
    assert "has equality deletes" in (refused.value.why or "") and refused.value.code == "LW-3484"
    assert len(files.held(load(), where)) == 1


def test_delete_files_with_values_that_come_after_the_rewrite_are_reported(catalog: SqlCatalog) -> None:
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))

    def load() -> Any:
        return catalog.load_table("n.t")

    where, access = parse("id = 2", load().schema(), "n.t"), FileAccess(Lake(warehouse=catalog.properties["warehouse"]))
    assert files.remains(load(), where) == "another writer committed such rows meanwhile"
    erase(load, where, access)
    delete_file(load(), DataFileContent.POSITION_DELETES, {2147483546: 1, 2147483545: 1})
    assert files.remains(load(), where) == ""
    equality(load())
    assert files.remains(load(), where).endswith("it has equality deletes, which contain values of rows")


@pytest.mark.parametrize("how", ["renamed", "swapped", "widened", "dropped"])
def test_a_column_of_the_condition_that_changes_meanwhile_is_not_taken_for_another(
    catalog: SqlCatalog, how: str
) -> None:
    schema = pa.schema([("id", pa.int32()), ("other", pa.int32())])
    table = catalog.create_table("n.t", schema)
    table.append(pa.table({"id": [1, 2], "other": [2, 3]}, schema))
    where = parse("id = 2", table.schema(), "n.t")
    with table.update_schema(allow_incompatible_changes=True) as change:
        if how == "widened":
            change.update_column("id", LongType())
        elif how == "dropped":
            change.delete_column("id")
        else:
            change.rename_column("id", "was")
    if how == "swapped":
        with catalog.load_table("n.t").update_schema() as change:
            change.rename_column("other", "id")
    with pytest.raises(Refused) as refused:
        files.held(catalog.load_table("n.t"), where)
    assert refused.value.code == "LW-3485"


def test_a_column_of_uuids_is_compared(catalog: SqlCatalog) -> None:
    one, other = UUID(int=1), UUID(int=1 << 127)
    schema = Schema(NestedField(1, "who", UUIDType(), required=False), NestedField(2, "n", LongType(), required=False))
    table = catalog.create_table("n.t", schema)
    values = pa.array([one.bytes, other.bytes, None], table.schema().as_arrow().field("who").type)
    table.append(pa.table({"who": values, "n": [1, 2, 3]}))
    where = parse(f"who = '{str(other).upper()}'", table.schema(), "n.t")
    access = FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))
    assert erase(lambda: catalog.load_table("n.t"), where, access) == 1
    assert sorted(catalog.load_table("n.t").scan().to_arrow()["n"].to_pylist()) == [1, 3]
    assert where.of_values({"who": str(other)}) is True and where.of_values({"who": str(one)}) is False


INNER = ("at.x", ".in ner", "[k]")


@pytest.mark.parametrize(
    ("path", "partition"),
    [(INNER, "geo.lat"), (("geo.lat",), "größe e\u0301 😀"), *(((name,), "") for name in COLUMNS[:5])],
    ids=repr,
)
def test_from_every_file(catalog: SqlCatalog, path: tuple[str, ...], partition: str) -> None:
    table = catalog.create_table("n.t", batch(range(1)).schema)
    if partition:
        with table.update_spec() as change:
            change.add_identity(partition)
    for first in (0, 4, 8):
        catalog.load_table("n.t").append(batch(range(first, first + 4)))

    def load() -> Any:
        return catalog.load_table("n.t")

    access = FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))
    where = parse(f"{written(path)} IN (5, 6) OR {written(path)} = 0", load().schema(), "n.t")
    assert files.obstacle(load()) == ""
    before = files.held(load(), where)
    assert len(before) == (3 if partition else 2)
    assert files.live(load(), before, where).num_rows == 3
    assert files.rewrite(load, where, lambda table, rows: {}, (), access) == 3
    files.forget(load, set(), lambda table: {}, access)
    files.delete(load(), access)
    assert files.held(load(), where) == set() == {*files.strays(load(), where, access)}
    left = sorted(row["at.x"][".in ner"]["[k]"] for row in load().scan().to_arrow().to_pylist())
    assert left == [key for key in range(12) if key not in (0, 5, 6)]
    root = Path(table.location().removeprefix("file://"))
    assert not {"t0", "t5", "t6"} & {
        row["at_x2Ex"]["_x2Ein_x20ner"]["text"]
        for file in root.rglob("*.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
    }


@pytest.mark.parametrize("version", ["1", "2"])
def test_from_files_of_a_partition_field_that_was_dropped(catalog: SqlCatalog, version: str) -> None:
    """In version 1 the field stays in the partition spec, with the transform void."""
    schema = pa.schema([("id", pa.int64()), ("origin", pa.string())])
    table = catalog.create_table("n.t", schema, properties={"format-version": version})
    with table.update_spec() as change:
        change.add_identity("origin")

    def load() -> Any:
        return catalog.load_table("n.t")

    load().append(pa.table({"id": [1, 2, 3, 4], "origin": ["a", "a", "b", "b"]}, schema))
    with load().update_spec() as change:
        change.remove_field("origin")
    load().append(pa.table({"id": [5, 6], "origin": ["a", "b"]}, schema))
    assert files.obstacle(load()) == ""
    where = parse("id IN (2, 6)", load().schema(), "n.t")
    assert erase(load, where, FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))) == 2
    left = {row["id"]: row["origin"] for row in load().scan().to_arrow().to_pylist()}
    assert left == {1: "a", 3: "b", 4: "b", 5: "a"}
    assert load().scan("origin = 'b'").to_arrow().num_rows == 2
    assert files.remains(load(), where) == ""


@pytest.mark.parametrize("how", ["the column dropped", "the field added again"])
def test_files_of_a_partitioning_that_pyiceberg_cannot_replace_are_refused_with_words(
    catalog: SqlCatalog, how: str
) -> None:
    """It ends in a TypeError or a ValueError of its own. In version 1 a dropped field stays in the partition spec."""
    again = how == "the field added again"
    schema = pa.schema([("id", pa.int64()), ("origin", pa.string())])
    table = catalog.create_table("n.t", schema, properties={"format-version": "1" if again else "2"})
    with table.update_spec() as change:
        change.add_identity("origin")

    def load() -> Any:
        return catalog.load_table("n.t")

    load().append(pa.table({"id": [1, 2, 3], "origin": ["a", "a", "b"]}, schema))
    with load().update_spec() as change:
        change.remove_field("origin")
    load().append(pa.table({"id": [5, 6], "origin": ["a", "b"]}, schema))
    if again:
        with load().update_spec() as change:
            change.add_identity("origin")
    else:
        with load().update_schema() as change:
            change.delete_column("origin")

    access = FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))
    where = parse("id = 2", load().schema(), "n.t")
    words = "of an earlier partitioning" if again else "partitioned by a column that was dropped"
    assert files.obstacle(load()) == ""
    assert words in files.unwritable(load(), files.held(load(), where))
    with pytest.raises(Refused) as refused:
        files.rewrite(load, where, lambda table, rows: {}, (), access)
    assert words in (refused.value.why or "") and refused.value.code == "LW-3484"
    if not again:
        newer = parse("id = 5", load().schema(), "n.t")
        assert files.unwritable(load(), files.held(load(), newer)) == ""
        assert erase(load, newer, access) == 1
        assert sorted(load().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 6]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, None], ids=str)
def test_from_the_files_of_a_partition_by_any_number(catalog: SqlCatalog, value: float | None) -> None:
    """As Spark writes them; PyIceberg itself appends to no such partition."""
    fields = (NestedField(1, "id", LongType(), required=False), NestedField(2, "v", DoubleType(), required=False))
    table = catalog.create_table("n.t", Schema(*fields))
    with table.update_spec() as change:
        change.add_identity("v")
    table = catalog.load_table("n.t")
    data = Path(table.location().removeprefix("file://")) / "data"
    data.mkdir(parents=True)
    with table.transaction() as commit, commit.update_snapshot().fast_append() as append:
        for at, partition in enumerate((value, 1.0)):
            rows = pa.table({"id": [2 * at, 2 * at + 1], "v": [partition] * 2}, table.schema().as_arrow())
            pq.write_table(rows, data / f"{at}.parquet")
            file = DataFile.from_args(
                content=DataFileContent.DATA, file_path=str(data / f"{at}.parquet"), file_format=FileFormat.PARQUET,
                partition=Record(partition), record_count=2,
                file_size_in_bytes=(data / f"{at}.parquet").stat().st_size,
            )  # fmt: skip
            file.spec_id = table.spec().spec_id
            append.append_data_file(file)

    def load() -> Any:
        return catalog.load_table("n.t")

    access = FileAccess(Lake(warehouse=str(catalog.properties["warehouse"])))
    assert erase(load, parse("id = 1", load().schema(), "n.t"), access) == 1
    left = {row["id"]: row["v"] for row in load().scan().to_arrow().to_pylist()}
    assert repr(dict(sorted(left.items()))) == repr({0: value, 2: 1.0, 3: 1.0})
    assert sorted(each.partition[0] is None for each in files._entries(load())) == [False, value is None]
