"""A Delta log read without a JVM: small logs written by hand; real ones are read in tests/spark/connectors/delta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.connectors.commit_protocol.ancestry import Finding
from lakeward.connectors.delta import location, log
from lakeward.platform.errors import Internal, Refused, SpecError
from lakeward.platform.runtime import Lake, ObjectStore


def _commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    (folder / log.LOG).mkdir(parents=True, exist_ok=True)
    (folder / log.LOG / f"{version:020d}.json").write_text(
        "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    )


def _domain(name: str, configuration: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def _file(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, **more}}


def test_files_and_domains_are_those_of_the_newest_version(tmp_path: Path) -> None:
    _commit(tmp_path, 0, {"metaData": {"id": "a"}}, _file("one"), _file("two"), _domain("x", "1"), _domain("y", "1"))
    _commit(tmp_path, 1, {"remove": {"path": "one"}}, _file("three"), _domain("x", "2"), _domain("y", "", removed=True))

    found = log.read(tmp_path)

    assert found is not None
    assert (found.version, set(found.files), dict(found.domains)) == (1, {"two", "three"}, {"x": "2"})


def test_what_only_spark_reads_is_refused_and_no_table_is_none(tmp_path: Path) -> None:
    assert log.read(tmp_path / "none") is None
    _commit(tmp_path / "dv", 0, _file("one", deletionVector={"storageType": "u"}))
    _commit(tmp_path / "hole", 0, _file("one"))
    _commit(tmp_path / "hole", 2, _file("two"))
    _commit(tmp_path / "newer", 5, _file("one"))
    mapped = {"metaData": {"configuration": {"delta.columnMapping.mode": "path"}}}
    _commit(tmp_path / "mapped", 0, mapped)
    reasons = {"dv": "deletion vectors", "hole": "is missing", "newer": "checkpoint", "mapped": "maps column"}
    for name, why in reasons.items():
        with pytest.raises(Refused, match=why) as refused:
            log.read(tmp_path / name)
        # Spark cannot open a table with an odd mode either: no query is offered.
        assert ("lakeward sql" in refused.value.next) == (name != "mapped")


@pytest.mark.parametrize(
    ("operation", "parameters", "parent"),
    [
        ("STREAMING UPDATE", {}, 6),
        ("OPTIMIZE", {}, 6),
        ("RESTORE", {"version": 3}, 3),
        ("RESTORE", {"version": "3"}, 3),
        ("RESTORE", {"timestamp": "2026-01-01"}, -1),
        ("RESTORE", {"version": None, "timestamp": "2026-01-01"}, -1),
        ("CREATE OR REPLACE TABLE", {}, None),
        ("REPLACE TABLE AS SELECT", {}, None),
        ("CLONE", {}, None),
    ],
)
def test_every_commit_says_whose_rows_it_goes_on_from(
    tmp_path: Path, operation: str, parameters: dict[str, Any], parent: int | None
) -> None:
    info = {"operation": operation, "operationParameters": parameters, "userMetadata": "s/1/n", "timestamp": 7}
    _commit(tmp_path, 7, _file("one"), {"commitInfo": info}, _domain("d", "c"))

    found = log.commit(tmp_path, 7)

    assert found is not None
    assert (found.parent, found.attempt, found.at_ms, found.domains) == (parent, "s/1/n", 7, {"d": "c"})
    assert log.commit(tmp_path, 8) is None


@pytest.mark.parametrize(
    ("above", "finding"),
    [
        ([("OPTIMIZE", {}), ("WRITE", {})], Finding.MET),
        ([("DELETE", {}), ("RESTORE", {"version": 3})], Finding.MET),
        ([("DELETE", {}), ("RESTORE", {"version": 4}), ("OPTIMIZE", {})], Finding.MET),
        ([("RESTORE", {"version": 2}), ("OPTIMIZE", {})], Finding.ROLLED_BACK),
        ([("RESTORE", {"version": 2}), ("RESTORE", {"version": 3})], Finding.MET),
        ([("RESTORE", {"version": 3}), ("RESTORE", {"version": 1})], Finding.ROLLED_BACK),
        ([("OPTIMIZE", {}), ("RESTORE", {"version": None, "timestamp": "2026-01-01"})], Finding.ROLLED_BACK),
        ([("CREATE OR REPLACE TABLE", {}), ("WRITE", {})], Finding.REPLACED),
    ],
)
def test_the_walk_to_the_positions_version(
    tmp_path: Path, above: list[tuple[str, dict[str, Any]]], finding: Finding
) -> None:
    for version, (operation, parameters) in enumerate(above, 4):
        _commit(tmp_path, version, {"commitInfo": {"operation": operation, "operationParameters": parameters}})

    assert log.walk(tmp_path, 3 + len(above), 3).finding is finding, "version 3 itself need not be in the log any more"


def test_a_log_that_was_cleaned_up_above_the_position_tells_nothing(tmp_path: Path) -> None:
    _commit(tmp_path, 5, {"commitInfo": {"operation": "OPTIMIZE"}})
    assert log.walk(tmp_path, 5, 3).finding is Finding.EXPIRED


def test_domains_are_those_of_one_version_and_of_none_that_cannot_be_known(tmp_path: Path) -> None:
    _commit(tmp_path, 0, _domain("x", "0"))
    _commit(tmp_path, 1, _domain("x", "1"), _domain("y", "1"))
    _commit(tmp_path, 2, _domain("x", "", removed=True))
    assert [log.domains(tmp_path, version) for version in range(3)] == [{"x": "0"}, {"x": "1", "y": "1"}, {"y": "1"}]
    (tmp_path / log.LOG / f"{1:020d}.json").unlink()
    assert log.domains(tmp_path, 2) is None


def test_delta_tables_are_in_the_warehouse_of_a_disk_or_of_the_own_store(tmp_path: Path) -> None:
    lake = Lake(warehouse=f"file://{tmp_path}")
    folder = location.folder_of(lake, "ns.t")
    assert folder == tmp_path / "delta.tables" / "ns" / "t"
    assert location.tables_of(lake) == []
    _commit(folder, 0, _file("one"))
    (tmp_path / "delta.tables" / "ns" / "no table").mkdir()
    assert location.tables_of(lake) == ["ns.t"]
    assert location.tables_of(Lake(warehouse="s3://bucket/w")) == []
    with pytest.raises(SpecError, match="cannot be stored in the warehouse s3://bucket/w"):
        location.folder_of(Lake(warehouse="s3://bucket/w"), "ns.t")
    found = location.folder_of(Lake(warehouse="s3://bucket/w", store=ObjectStore()), "ns.t")
    assert location.by_path(found) == "delta.`s3a://bucket/w/delta.tables/ns/t`"
    assert str(log.absolute(found, "day=a%20b/x.parquet")) == f"{found}/day=a b/x.parquet"
    assert str(log.absolute(found, "s3a://other/a%20b.parquet")) == "s3a://other/a b.parquet"
    assert (found / "x.checkpoint.parquet").suffix == ".parquet"
    assert found.parent.name == "ns"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_in_files_by_the_names_or_ids_that_these_have(tmp_path: Path, mode: str) -> None:
    """Two columns that swapped their names, and in mode `id` a file of another writer with names of its own."""
    stored = {"_kafka_topic": "kind", "_kafka_partition": "col-1", "_kafka_offset": "col-2", "kind": "_kafka_topic"}
    fields = [
        {"name": name, "type": "string", "metadata": {
            "delta.columnMapping.physicalName": each, "delta.columnMapping.id": number}}
        for number, (name, each) in enumerate(stored.items(), 1)
    ]  # fmt: skip
    columns = {"kind": pa.array(["t", "t"]), "col-2": pa.array([7, 8]), "_kafka_topic": pa.array(["x", "y"])}
    renamed = {"kind": "a", "col-2": "b", "_kafka_topic": "c"} if mode == "id" else {}
    numbers = {"kind": 1, "col-2": 3, "_kafka_topic": 4}
    schema = pa.schema([
        pa.field(renamed.get(name, name), each.type, metadata={"PARQUET:field_id": str(numbers[name])})
        for name, each in columns.items()
    ])  # fmt: skip
    pq.write_table(pa.table(list(columns.values()), schema=schema), tmp_path / "one")
    metadata = {
        "id": "a", "configuration": {"delta.columnMapping.mode": mode}, "partitionColumns": ["_kafka_partition"],
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }  # fmt: skip
    _commit(tmp_path, 0, {"metaData": metadata}, {"add": {"path": "one", "partitionValues": {"col-1": "3"}}})

    found = log.read(tmp_path)

    assert found is not None and found.files == {"one": {"_kafka_partition": "3"}}
    (rows,) = log.scan(found)(["t"], None)
    assert rows.to_pydict() == {"_kafka_topic": ["t", "t"], "_kafka_partition": [3, 3], "_kafka_offset": [7, 8]}


def test_rows_of_one_stream_are_not_counted_apart(tmp_path: Path) -> None:
    _commit(tmp_path, 0, {"metaData": {"id": "a"}}, _file("one"))
    table = log.read(tmp_path)
    assert table is not None
    with pytest.raises(Internal, match="stream flights alone"):
        next(log.scan(table)(["flights"], "flights"))
