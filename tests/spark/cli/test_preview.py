"""`streams preview` in a process of its own: it starts and stops a Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from lakeward import jars
from lakeward.platform.runtime import Home, Lake, Runtime

STREAM = """
owner: x
source: {kafka: {topics: [TOPIC], max_offsets_per_trigger: 10}}
decode: {json: "n INT, at TIMESTAMP", columns: all}
watermark: {column: at, delay: 1h}
deduplicate: {keys: [n]}
reference: {names: {csv: names.csv, columns: "n INT, name STRING"}, labels: {iceberg: NAMESPACE.labels}}
transform:
  sql: >-
    SELECT source.*, names.name, label FROM source LEFT JOIN names ON names.n = source.n
    LEFT JOIN labels ON labels.n = source.n WHERE source.n <> 5
rules: {small: "n < 100"}
sink: {iceberg: {table: a.b}}
"""


def test_a_sample_shows_what_would_land_and_what_would_not_and_touches_nothing(
    kafka: Any, lake: Lake, catalog: Any, tmp_path: Path
) -> None:
    namespace = f"preview_{tmp_path.name[-20:].replace('-', '_')}"
    catalog.create_namespace(namespace)
    labels = pa.table({"n": pa.array([1], pa.int32()), "label": ["first"]})
    catalog.create_table(f"{namespace}.labels", labels.schema).append(labels)
    project, topic = tmp_path / "project", str(kafka.create_topic(partitions=2))
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in [{"n": each} for each in (9, 9, 9, 1, 1, 5, 500, 2)]:
        producer.produce(topic, json.dumps(value), key=b"k", partition=0)
    producer.produce(topic, b"junk", partition=1)
    assert producer.flush(60) == 0
    (project / "conf" / "streams").mkdir(parents=True)
    (project / "conf" / "streams" / "a.yaml").write_text(STREAM.replace("TOPIC", topic).replace("NAMESPACE", namespace))
    (project / "names.csv").write_text("n,name\n1,one\n")
    home = Home(tmp_path / "home")
    home.runtime_file.parent.mkdir(parents=True)
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=lake, checkpoints=str(tmp_path / "ck"),
        kafka={"lakeward_kafka": kafka.bootstrap}, drivers=tmp_path / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip
    home.runtime_file.write_text(runtime.model_dump_json())
    before = sorted(str(each) for each in tmp_path.rglob("*"))
    command = [sys.executable, "-m", "lakeward", "streams", "preview", "a", "--rows", "10", "-o", "json"]
    command += ["--project", str(project), "--home", str(home.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    # Five of each partition: of the first one 1, 5, 500, 2 and one 1 before.
    assert (said["read"], said["landed"]) == (6, 2)
    rows = sorted((row["n"], row["name"], row["label"], row["_kafka_key"]) for row in said["rows"])
    assert rows == [(1, "one", "first", "aw=="), (2, None, None, "aw==")]
    aside = {(each["reason"], each["record"], each["error"]) for each in said["quarantined"]}
    assert aside == {
        ("decode", f"{topic}/1 offset 0", "not one JSON object"),
        ("small", f"{topic}/0 offset 6", "not: n < 100"),
    }
    assert said["columns"]["name"] == "string"
    assert said["notes"] == ["only duplicates within the sample are dropped"]
    assert sorted(str(each) for each in tmp_path.rglob("*")) == before


def test_a_stream_that_reads_no_table_has_a_preview_too(kafka: Any, lake: Lake, tmp_path: Path) -> None:
    topic = str(kafka.create_topic())
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b'{"n": 1}')
    assert producer.flush(60) == 0
    project, home = tmp_path / "project", Home(tmp_path / "home")
    (project / "conf" / "streams").mkdir(parents=True)
    plain = f"""
owner: x
source: {{kafka: {{topics: [{topic}], max_offsets_per_trigger: 10}}}}
decode: {{json: "n INT"}}
transform: {{sql: SELECT * FROM source}}
sink: {{iceberg: {{table: a.b}}}}
"""
    (project / "conf" / "streams" / "a.yaml").write_text(plain)
    home.runtime_file.parent.mkdir(parents=True)
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=lake, checkpoints=str(tmp_path / "ck"),
        kafka={"lakeward_kafka": kafka.bootstrap}, drivers=tmp_path / "drivers", jars=jars.spark_folder(),
    )  # fmt: skip
    home.runtime_file.write_text(runtime.model_dump_json())
    command = [sys.executable, "-m", "lakeward", "streams", "preview", "a", "-o", "json"]
    command += ["--project", str(project), "--home", str(home.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in json.loads(done.stdout)["rows"]] == [1]
