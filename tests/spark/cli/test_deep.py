"""`config validate --deep` in a process of its own: it starts and stops a Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 10}}\n"


def validate(project: Path) -> tuple[int, dict, str]:
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
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_what_only_spark_knows(tmp_path):
    folder = tmp_path / "conf" / "streams"
    folder.mkdir(parents=True)
    (tmp_path / "r.csv").write_text("k,odd name\n1,2\n")
    (folder / "a.yaml").write_text(
        HEAD + 'decode: {json: "year INT, ts TIMESTAMP"}\n'
        "transform: {file: a.sql}\n"
        "reference: {r: {csv: r.csv}}\n"
        'rules: {fine: "ts IS NOT NULL", wrong: "nope > 1"}\n'
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
    (folder / "c.yaml").write_text(
        HEAD + 'decode: {json: "year INT"}\nsink: {kafka: {topic: u, key: yeer}}\nquarantine: {table: a.q}\n'
    )
    (folder / "raw.yaml").write_text(HEAD + "sink: {iceberg: {table: a.raw, partition_by: [_kafka_partition]}}\n")
    code, said, err = validate(tmp_path)
    found = {(p["file"].rpartition("/")[2], p["path"], p["line"]): p["message"] for p in said["problems"]}
    assert code == 2
    assert set(found) == {
        ("a.yaml", "rules.wrong", 6),
        ("a.sql", "transform.sql", 1),
        ("a.yaml", "sink.iceberg.partition_by[0]", 7),
        ("b.yaml", "transform.sql", 7),
        ("c.yaml", "sink.kafka.key", 4),
    }
    assert "`nope` cannot be resolved" in found["a.yaml", "rules.wrong", 6]
    assert "nofunc" in found["b.yaml", "transform.sql", 7]
    assert "SQLSTATE" not in json.dumps(said)
    assert err == "", "nothing of Spark's greetings reaches the terminal"


def test_the_demo_project_is_in_order():
    assert validate(ROOT)[:2] == (0, {"ok": True, "problems": []})
