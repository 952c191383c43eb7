"""An upgrade asks Spark about the new SQL before anything is stopped; in a process of its own, as a person runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from lakeward.connectors.iceberg.catalog import create_schema, pyiceberg_properties
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect, migrate
from lakeward.runtime import Lake, Runtime
from lakeward.spec.stream import StreamSpec

SPEC = {
    "id": "flights",
    "owner": "ops",
    "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 10}},
    "decode": {"json": "n INT"},
    "sink": {"iceberg": {"table": "nyc.flights"}},
}


@pytest.mark.parametrize(
    ("sql", "said"),
    [("SELECT nope FROM source", "nope"), ("SELECT n, 1 AS extra FROM source", "not in the table: extra")],
)
def test_sql_that_fails_analysis_is_refused_and_nothing_is_stopped(
    tmp_path: Path, postgres: Any, database: str, sql: str, said: str
) -> None:
    url = postgres.url(database)
    migrate(url, postgres.pgpass)
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
        checkpoints=str(home), drivers=home / "drivers", jars=home,
    )  # fmt: skip
    (home / "runtime.json").write_text(runtime.model_dump_json())
    with connect(url, postgres.pgpass) as connection:
        streams.accept(connection, "flights", generation=1, driver="flights", desired="running")
        for number, text in ((1, "SELECT n FROM source"), (2, sql)):
            spec = StreamSpec.model_validate(SPEC | {"transform": {"sql": text}}).document()
            generations.add(
                connection, stream="flights", generation=number, spec=spec, digest=text, sql=text, code={}, versions={},
                author="ann", checkpoint="flights",
            )  # fmt: skip
        streams.set_pending(connection, "flights", 2)

    command = [sys.executable, "-m", "lakeward", "streams", "upgrade", "flights", "--home", str(home), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path)

    assert done.returncode == 4, done.stderr
    assert "fails analysis; nothing was stopped" in done.stderr
    assert said in done.stderr
    with connect(url, postgres.pgpass) as connection:
        row = streams.get(connection, "flights")
    assert (row.generation, row.pending_generation, row.desired, row.proving) == (1, 2, "running", None)
    assert json.dumps(row.blocked) == "null"
