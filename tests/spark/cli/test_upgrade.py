"""An upgrade asks Spark about the new SQL before anything is stopped; in a process of its own, as a person runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from lakeward import jars
from lakeward.connectors.iceberg.catalog import create_schema, pyiceberg_properties
from lakeward.platform.runtime import Lake, Runtime
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec

SPEC = {
    "id": "flights",
    "owner": "ops",
    "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 10}},
    "decode": {"json": "n INT"},
    "sink": {"iceberg": {"table": "nyc.flights"}},
}


@pytest.fixture
def home(tmp_path: Path, postgres: Any) -> Iterator[Path]:
    """A home without a running stack: a registry, a catalog, and table `nyc.flights` with one column."""
    database = postgres.create_registry()
    url = postgres.url(database)
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "registry.url").write_text(url)
    shutil.copy2(postgres.pgpass, home / "secrets" / "pgpass")
    lake = Lake(host=postgres.host, port=postgres.port, database=database, warehouse=str(tmp_path / "warehouse"))
    create_schema(lake, postgres.pgpass)
    catalog = load_catalog("lake", **pyiceberg_properties(lake, postgres.pgpass))
    catalog.create_namespace("nyc")
    catalog.create_table("nyc.flights", pa.schema([("n", pa.int32())]))
    runtime = Runtime(
        registry_url_file=home / "secrets" / "registry.url", pgpass=postgres.pgpass, lake=lake,
        checkpoints=str(home), drivers=home / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip
    (home / "runtime.json").write_text(runtime.model_dump_json())
    yield home
    postgres.drop_database(database)


def registry_of(home: Path) -> str:
    """The address of its registry."""
    return (home / "secrets" / "registry.url").read_text()


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakeward", *words, "--home", str(home), "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=home.parent)


def accept(connection: Any, *sqls: str, name: str = "flights") -> None:
    """A running stream with these generations, of which it runs the first."""
    streams.accept(connection, name, generation=1, driver=name, desired="running")
    for number, text in enumerate(sqls, start=1):
        spec = StreamSpec.model_validate(SPEC | {"id": name, "transform": {"sql": text}}).document()
        generations.add(
            connection, stream=name, generation=number, spec=spec, digest=text, sql=text, code={}, versions={},
            author="ann", checkpoint=name,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param(
            "SELECT nope FROM source",
            "nope",
            marks=pytest.mark.campaign(held_by="tests/spark/cli/test_deep.py::test_what_only_spark_knows"),
        ),
        ("SELECT n, 1 AS extra FROM source", "not in the table: extra"),
    ],
)
def test_sql_that_fails_analysis_is_refused_and_nothing_is_stopped(
    home: Path, postgres: Any, sql: str, said: str
) -> None:
    url = registry_of(home)
    with connect(url, postgres.pgpass) as connection:
        accept(connection, "SELECT n FROM source", sql)
        streams.set_pending(connection, "flights", 2)

    done = run(home, "streams", "upgrade", "flights")

    assert done.returncode == 4, done.stderr
    assert "fails analysis; nothing was stopped" in done.stderr
    assert said in done.stderr
    with connect(url, postgres.pgpass) as connection:
        row = streams.get(connection, "flights")
    assert (row.generation, row.pending_generation, row.desired, row.proving) == (1, 2, "running", None)
    assert json.dumps(row.blocked) == "null"


def test_a_plan_says_what_a_deploy_would_change_in_the_table(home: Path, postgres: Any) -> None:
    cases = {
        "flights": (
            "SELECT CAST(n AS BIGINT) n, 1.5 AS extra FROM source",
            ["adds extra DECIMAL(2,1)", "widens n from INT to"],
        ),
        "others": (
            "SELECT 1 AS other FROM source",
            ["refused: it gives other columns than the table has; only in the table: n"],
        ),
    }  # fmt: skip
    folder = home.parent / "conf" / "streams"
    folder.mkdir(parents=True)
    for name, (sql, _) in cases.items():
        with connect(registry_of(home), postgres.pgpass) as connection:
            accept(connection, "SELECT n FROM source", name=name)
        spec = SPEC | {"id": name, "transform": {"sql": sql}, "schema": {"evolution": "additive"}, "lineage": "none"}
        (folder / f"{name}.yaml").write_text(json.dumps(spec))
    done = run(home, "deploy", "--plan")
    assert done.returncode == 0, done.stderr
    found = {change["stream"]: change for change in json.loads(done.stdout)["changes"]}
    assert set(found) == set(cases)
    for name, (_, changes) in cases.items():
        change = found[name]
        assert (change["change"], change["generation"]) == ("changed", 2)
        assert len(change["table_changes"]) == len(changes), change
        assert all(found.startswith(said) for found, said in zip(change["table_changes"], changes, strict=True)), change
        assert "upgrade pending" in change["why"]
        assert change["table_changes"][0] in change["why"]
