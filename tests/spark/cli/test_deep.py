"""`config validate --deep` in a process of its own: it starts and stops a Spark session."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward import jars
from lakeward.connectors.delta import location
from lakeward.platform.runtime import Home, Lake, Runtime

ROOT = Path(__file__).parents[3]
HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 10}}\n"


def validate(project: Path, home: Path | None = None) -> tuple[int, dict, str]:
    command = [
        sys.executable,
        "-m",
        "lakeward",
        "config",
        "validate",
        "--deep",
        "-o",
        "json",
        "--project",
        str(project),
        *(["--home", str(home)] if home else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_what_only_spark_knows(tmp_path):
    """In one project with the streams of the demo, in which nothing is wrong."""
    for part in ("conf", "expectations"):
        shutil.copytree(ROOT / part, tmp_path / part)
    folder = tmp_path / "conf" / "streams"
    assert (folder / "flights.yaml").is_file()
    (tmp_path / "r.csv").write_text("k,odd name\n1,2\n")
    (folder / "a.yaml").write_text(
        HEAD + 'decode: {json: "year INT, ts TIMESTAMP, `${spark.app.name}` INT"}\n'
        "transform: {file: a.sql}\n"
        "reference: {r: {csv: r.csv}}\n"
        'rules: {fine: "ts IS NOT NULL", odd: "`${spark.app.name}` > 1", wrong: "nope > 1"}\n'
        'sink: {iceberg: {table: a.d, partition_by: ["days(tss)"]}}\n'
    )
    (folder / "a.sql").write_text(
        "SELECT source.*,\n  year + 1 AS year,\n  `odd name`,\n  NULL AS x\nFROM source JOIN r ON k = year\n"
    )
    (folder / "b.yaml").write_text(
        HEAD + 'decode: {json: "year INT"}\n'
        "transform:\n  sql: |\n    SELECT *,\n      nofunc(year) AS a\n    FROM source\n"
        "sink: {iceberg: {table: a.b}}\n"
    )
    (folder / "k.yaml").write_text(
        HEAD + 'decode: {json: "year INT"}\nsink: {iceberg: {table: a.k}}\n'
        "spark: {spark.sql.shufle.partitions: 4, spark.sql.shuffle.partitions: 4}\n"
    )
    (folder / "c.yaml").write_text(
        HEAD + 'decode: {json: "year INT"}\nsink: {kafka: {topic: u, key: yeer}}\nquarantine: {table: a.q}\n'
    )
    (tmp_path / "python").mkdir()
    (tmp_path / "python/mine.py").write_text(
        "def run(source):\n    return cut(source)\n\n\ndef cut(source):\n    return source.select('yaer')\n"
    )
    (folder / "p.yaml").write_text(
        HEAD + 'decode: {json: "year INT"}\ntransform: {python: "mine:run"}\nsink: {iceberg: {table: a.p}}\n'
    )
    for name, reference in (("i", "{iceberg: a.names}"), ("l", "{delta: a.places}")):
        (folder / f"{name}.yaml").write_text(
            HEAD + f'decode: {{json: "n INT"}}\nreference:\n  r: {reference}\ntransform:\n'
            "  sql: SELECT source.*, r.label FROM source JOIN r ON r.n = source.n\n"
            f"sink: {{iceberg: {{table: a.{name}}}}}\n"
        )
    (folder / "raw.yaml").write_text(HEAD + "sink: {iceberg: {table: a.raw, partition_by: [_kafka_partition]}}\n")
    code, said, err = validate(tmp_path)
    unseen = [p for p in said["problems"] if "without a running stack" in p["message"]]
    assert {(Path(p["file"]).stem, p["severity"]) for p in unseen} == {("i", "warning"), ("l", "warning")}
    found = {
        (p["file"].rpartition("/")[2], p["path"], p["line"]): p["message"] for p in said["problems"] if p not in unseen
    }
    assert code == 2
    assert set(found) == {
        ("a.yaml", "rules.wrong", 6),
        ("a.sql", "transform.sql", 1),
        ("a.yaml", "sink.iceberg.partition_by[0]", 7),
        ("b.yaml", "transform.sql", 7),
        ("c.yaml", "sink.kafka.key", 4),
        ("mine.py", "transform.python", 6),
        ("k.yaml", "spark[spark.sql.shufle.partitions]", 5),
    }
    assert "Spark has no setting" in found["k.yaml", "spark[spark.sql.shufle.partitions]", 5]
    assert "mine:run failed: AnalysisException" in found["mine.py", "transform.python", 6]
    assert "`nope` cannot be resolved" in found["a.yaml", "rules.wrong", 6]
    assert "nofunc" in found["b.yaml", "transform.sql", 7]
    assert "SQLSTATE" not in json.dumps(said)
    assert err == "", "nothing of Spark's greetings reaches the terminal"


def test_the_columns_of_a_reference_table_are_asked_where_a_stack_knows_them(
    lake: Lake, catalog: Any, tmp_path: Path
) -> None:
    namespace, folder, home = f"deep_{tmp_path.name[-20:].replace('-', '_')}", tmp_path / "conf/streams", tmp_path / "h"
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.names", pa.schema({"n": pa.int32(), "label": pa.string()}))
    _delta_table(location.folder_of(lake, f"{namespace}.places"))
    folder.mkdir(parents=True)
    for stream, reference, column in (
        ("fits", f"{{iceberg: {namespace}.names}}", "label"),
        ("dropped", f"{{iceberg: {namespace}.names}}", "name"),
        ("renamed", f"{{iceberg: {namespace}.name}}", "label"),
        ("delta", f"{{delta: {namespace}.places}}", "plaice"),
    ):
        (folder / f"{stream}.yaml").write_text(
            HEAD + 'decode: {json: "n INT"}\nreference:\n  r: ' + reference + "\ntransform:\n"
            f"  sql: SELECT source.*, r.{column} FROM source JOIN r ON r.n = source.n\n"
            f"sink: {{iceberg: {{table: a.{stream}}}}}\n"
        )
    home.mkdir()
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=lake, kafka={"lakeward_kafka": "127.0.0.1:1"}, checkpoints="/c",
        drivers=tmp_path, jars=jars.spark_folder(),
    )  # fmt: skip
    Home(home).runtime_file.write_text(runtime.model_dump_json())
    code, said, err = validate(tmp_path, home)
    found = {Path(p["file"]).stem: (p["line"], p["message"]) for p in said["problems"]}
    assert (code, err) == (2, "")
    assert set(found) == {"dropped", "renamed", "delta"}
    assert found["dropped"][0] == 7
    assert "`r`.`name` cannot be resolved" in found["dropped"][1]
    assert found["renamed"][0] == 5
    assert f"there is no {namespace}.name; " in found["renamed"][1]
    assert f"did you mean {namespace}.names?" in found["renamed"][1]
    assert "`place`" in found["delta"][1]


def _delta_table(folder: Path) -> None:
    """A Delta table without rows."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in
              (("n", "integer"), ("place", "string"))]  # fmt: skip
    metadata = {
        "id": "5f1d", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }  # fmt: skip
    (folder / "_delta_log").mkdir(parents=True)
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "_delta_log" / f"{0:020}.json").write_text(text)


@pytest.mark.campaign(held_by="test_what_only_spark_knows")
def test_the_demo_project_is_in_order():
    code, found, _ = validate(ROOT)
    assert (code, found["ok"], found["problems"]) == (0, True, [])
