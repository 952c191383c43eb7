"""One table that cannot be read is a row with its words; every other table is shown, planned and observed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from delta_log import add, commit, table
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, TimestamptzType
from small_streams import registry_file, runtime

from lakeward.cli.app import main
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.needs import RegistryState
from lakeward.tables.observation import load_facts

__all__ = ["registry_file", "runtime"]  # fixtures

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestamptzType()))
GOOD = ["nyc.a_good", "nyc.z_good"]
FAR_DAY = 1_764_000_000_000 // 86_400  # milliseconds that a writer took for seconds: the year 57868


@pytest.fixture
def catalog(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    """Two tables that are as they should be, in a catalog beside the Delta tables of the warehouse."""
    files = pyiceberg_properties(runtime.lake)["py-io-impl"]
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": runtime.lake.warehouse}
    made = SqlCatalog("lake", **place, **{"py-io-impl": files})
    made.create_namespace("nyc")
    for name in GOOD:
        rows(made.create_table(name, SCHEMA), 1_764_000_000_000_000)
    monkeypatch.setattr(MaintenanceContext, "catalog", made)
    yield made
    made.close()


def rows(of: Any, microseconds: int) -> None:
    of.append(pa.table({"id": [1], "ts": pa.array([microseconds], pa.timestamp("us", "UTC"))}))


def far(catalog: SqlCatalog, transform: Any, value: int) -> None:
    """A file of the year 57868 in a table by days, as Spark writes it: the partition value is a number."""
    spec = PartitionSpec(PartitionField(2, 1000, transform, "ts_part"))
    made = catalog.create_table("nyc.odd", SCHEMA, partition_spec=spec)
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{made.location()}/data/far.parquet", file_format=FileFormat.PARQUET,
        partition=Record(value), record_count=1, file_size_in_bytes=1,
    )  # fmt: skip
    with (
        patch.object(PartitionSpec, "partition_to_path", lambda *_: "far"),  # PyIceberg cannot write it; Spark can
        made.transaction() as change,
        change.update_snapshot().fast_append() as append,
    ):
        append.append_data_file(file)


def metadata_of(catalog: SqlCatalog) -> Path:
    made = catalog.create_table("nyc.odd", SCHEMA)
    rows(made, 1)
    return Path(catalog.load_table("nyc.odd").metadata_location.removeprefix("file://"))


def cut(catalog: SqlCatalog, runtime: Runtime) -> None:
    file = metadata_of(catalog)
    file.write_text(file.read_text()[: file.stat().st_size // 2])


def missing(catalog: SqlCatalog, runtime: Runtime) -> None:
    metadata_of(catalog).unlink()


def future(catalog: SqlCatalog, runtime: Runtime) -> None:
    file = metadata_of(catalog)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format-version": 9}))


def no_manifests(catalog: SqlCatalog, runtime: Runtime) -> None:
    for file in metadata_of(catalog).parent.glob("*.avro"):
        file.write_bytes(b"Obj\x01 not a manifest")


def cut_list(catalog: SqlCatalog, runtime: Runtime) -> None:
    [file] = metadata_of(catalog).parent.glob("snap-*.avro")
    file.write_bytes(file.read_bytes()[:-40])


def cut_manifest(catalog: SqlCatalog, runtime: Runtime) -> None:
    [file] = metadata_of(catalog).parent.glob("*-m0.avro")
    file.write_bytes(file.read_bytes()[:-40])


def delta(runtime: Runtime, *actions: dict[str, Any]) -> None:
    commit(Path(runtime.lake.warehouse) / "delta.tables" / "nyc" / "odd", 0, *actions)


def unknown_feature(catalog: SqlCatalog, runtime: Runtime) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["rowsElsewhere"], "writerFeatures": []}
    delta(runtime, {"protocol": protocol}, table(), add("a", 10, day="2013-01-01"))


def future_protocol(catalog: SqlCatalog, runtime: Runtime) -> None:
    delta(runtime, {"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}, table())


def column_mapping(catalog: SqlCatalog, runtime: Runtime) -> None:
    named = table()
    named["metaData"]["configuration"] = {"delta.columnMapping.mode": "path"}
    delta(runtime, named)


def odd_log(catalog: SqlCatalog, runtime: Runtime) -> None:
    delta(runtime, table(), {"add": {"path": "a", "size": "many", "stats": "{not json"}})


ODD = {
    cut: "", missing: "", future: "", no_manifests: "", unknown_feature: "rowsElsewhere", future_protocol: "version 9",
    column_mapping: "maps column names", odd_log: "", cut_list: "is no whole Avro file",
    cut_manifest: "is no whole Avro file",
}  # fmt: skip


@pytest.fixture(params=list(ODD), ids=[each.__name__ for each in ODD])
def odd(request: pytest.FixtureRequest, catalog: SqlCatalog, runtime: Runtime) -> str:
    """A lake with one odd table; what its words must have."""
    request.param(catalog, runtime)
    return ODD[request.param]


def test_health_shows_the_odd_table_with_its_words_and_all_others(odd: str, runtime: Runtime, tmp_path: Path) -> None:
    shown = run.health(runtime, Project(tmp_path))["tables"]
    assert [row["table"] for row in shown] == ["nyc.a_good", "nyc.odd", "nyc.z_good"]
    assert [row["table"] for row in shown if not row["error"]] == GOOD
    [row] = [row for row in shown if row["error"]]
    assert odd in row["error"]
    assert row["error"] in row["advice"]
    assert row["files"] is None


def test_plan_and_observation_go_on_past_it(odd: str, runtime: Runtime, tmp_path: Path) -> None:
    plans = run.plans(runtime, Project(tmp_path))["plans"]
    assert [(plan["table"], bool(plan.get("error"))) for plan in plans] == [
        ("nyc.a_good", False), ("nyc.odd", True), ("nyc.z_good", False),
    ]  # fmt: skip
    assert [plan["table"] for plan in run.matching(runtime, Project(tmp_path), "nyc.*") if "error" not in plan] == GOOD
    seen = run.observe(runtime, Project(tmp_path))
    assert [row["table"] for row in seen["tables"]] == GOOD
    assert list(seen["errors"]) == ["nyc.odd"]


def test_a_command_about_the_odd_table_alone_says_why_without_a_stack_trace(
    odd: str, runtime: Runtime, tmp_path: Path
) -> None:
    for command in (run.health, run.plans, run.why, run.pins, run.maintain):
        with pytest.raises(LakewardError) as said:
            command(runtime, Project(tmp_path), "nyc.odd")
        assert odd in said.value.why
        assert said.value.why
        assert said.value.next
        assert said.value.code


@pytest.fixture
def command(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str]]:
    """Runs `lakeward ...` in this process: its exit code and what stood on stdout."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.runtime_file.write_text(runtime.model_dump_json())
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(runtime.registry_url_file))

    def call(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--home", str(home.root), "--project", str(tmp_path)])
        return end.value.code, capsys.readouterr().out

    return call


@pytest.mark.parametrize("form", ["json", "table"])
def test_the_exit_code_counts_the_odd_table(
    form: str, command: Callable[..., tuple[Any, str]], catalog: SqlCatalog, runtime: Runtime
) -> None:
    assert command("tables", "health", "-o", form)[0] == 0
    assert command("tables", "plan", "-o", form)[0] == 0
    cut(catalog, runtime)
    for noun in ("health", "plan"):
        code, shown = command("tables", noun, "-o", form)
        assert code == 3
        assert all(name in shown for name in (*GOOD, "nyc.odd"))


@pytest.mark.parametrize(
    ("transform", "value", "key"),
    [
        (YearTransform(), 57868 - 1970, "57868"),
        (MonthTransform(), (57868 - 1970) * 12, "57868-01"),
        (DayTransform(), FAR_DAY, "+57868-12-07"),
        (HourTransform(), FAR_DAY * 24 + 5, "+57868-12-07-05"),
        (DayTransform(), -FAR_DAY, "-53929-01-25"),
    ],
)
def test_a_row_of_the_year_57868_is_a_partition_like_any_other(
    transform: Any, value: int, key: str, catalog: SqlCatalog, runtime: Runtime, tmp_path: Path
) -> None:
    far(catalog, transform, value)
    site, around = MaintenanceContext.of(runtime, Project(tmp_path)), RegistryState({}, frozenset(), {}, ())
    [part] = load_facts(site, "nyc.odd", around).facts.profile.partitions
    assert part.key == f"ts_part={key}"
    assert part.where
    shown = {row["table"]: row for row in run.health(runtime, Project(tmp_path))["tables"]}
    assert [row["error"] for row in shown.values()] == [None, None, None]
    assert shown["nyc.odd"]["partitions"] == 1
    seen = run.observe(runtime, Project(tmp_path))
    assert seen["errors"] == {}


def test_a_name_that_no_table_has_is_reported_with_the_nearest_and_not_with_the_whole_lake(
    catalog: SqlCatalog, runtime: Runtime, tmp_path: Path
) -> None:
    for number in range(20):
        catalog.create_table(f"nyc.x_{number:02}", SCHEMA)
    with pytest.raises(LakewardError) as error:
        MaintenanceContext(runtime, Project(tmp_path)).load("nyc.a_goood")
    why = error.value.why or ""
    assert why.startswith("Tables of the lake: nyc.a_good, ") and why.endswith(" and 12 more."), why
