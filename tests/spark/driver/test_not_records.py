"""A batch that fails by its table is not taken for bad records; one that fails by a record still is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.platform.errors import NotTheRecords
from lakeward.platform.failures import FailureClass, judge

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

OUTSIDE, TRIAL = "outside of the tasks", "one row that is no record fails too"


def folder_of(lab: Any) -> Path:
    table = load_lake(lab.runtime.lake, lab.runtime.pgpass).load_table(f"{lab.namespace}.t")
    return Path(table.location().removeprefix("file:"))


def data_is_a_file(lab: Any) -> None:
    """As a folder that may not be written: the tests may run as root."""
    data = folder_of(lab) / "data"
    data.rename(data.with_name("moved"))
    data.write_text("")


def metadata_is_a_file(lab: Any) -> None:
    metadata = folder_of(lab) / "metadata"
    for each in metadata.glob("*.avro"):
        each.unlink()


def data_elsewhere(lab: Any) -> None:
    sql = "SET TBLPROPERTIES ('write.data.path'='/proc/nothing')"
    lab.spark.sql(f"ALTER TABLE lake.{lab.namespace}.t {sql}")


def commit(lab: Any, **configuration: str) -> None:
    """A commit of another writer, which asks Spark for nothing."""
    log = Path(str(location.folder_of(lab.runtime.lake, f"{lab.namespace}.t"))) / "_delta_log"
    versions = sorted(log.glob("*.json"))
    lines = [json.loads(line) for file in versions for line in file.read_text().splitlines()]
    metadata = next(line["metaData"] for line in reversed(lines) if "metaData" in line)
    metadata["configuration"] |= configuration
    (log / f"{int(versions[-1].stem) + 1:020}.json").write_text(json.dumps({"metaData": metadata}) + "\n")


@pytest.mark.parametrize(
    ("sink", "harm", "shown", "words"),
    [
        ("iceberg", data_is_a_file, TRIAL, "Destination exists and is not a directory"),
        ("iceberg", data_elsewhere, TRIAL, "Mkdirs failed to create file:/proc/nothing"),
        ("iceberg", metadata_is_a_file, OUTSIDE, ".avro"),
        ("delta", lambda lab: commit(lab, **{"delta.constraints.odd": "n > 0"}), OUTSIDE, "checkConstraints"),
        ("delta", lambda lab: commit(lab, **{"delta.enableRowTracking": "true"}), OUTSIDE, "rowTracking"),
    ],
)
def test_a_table_that_cannot_be_written_is_not_taken_for_bad_records(
    lab: Any, sink: str, harm: Callable[[Any], None], shown: str, words: str
) -> None:
    topic = lab.topic()
    document = lab.spec(topic, sink={sink: {"table": f"{lab.namespace}.t"}})
    lab.start(document)
    lab.land(topic, {"n": 1, "s": "one"})
    harm(lab)
    lab.produce(topic, [{"n": 2, "s": "two"}])
    failed = lab.failed(lab.started[-1])
    assert isinstance(failed, NotTheRecords), failed
    assert shown in failed.why and words in failed.why, failed.why
    assert "skip" not in failed.next


@pytest.mark.parametrize(
    ("sink", "sql", "constraint"),
    [
        ("iceberg", "SELECT 10 DIV (n - 2) AS n, s FROM source", ""),
        ("delta", "SELECT * FROM source", "n <> 2 AND n <> 0"),  # a row of no record breaks it as well
    ],
)
def test_a_bad_record_is_still_one(lab: Any, sink: str, sql: str, constraint: str) -> None:
    topic = lab.topic()
    document = lab.spec(topic, sink={sink: {"table": f"{lab.namespace}.t"}}, transform={"sql": sql})
    lab.start(document)
    lab.land(topic, {"n": 1, "s": "one"})
    if constraint:
        lab.spark.sql(f"ALTER TABLE spark_catalog.{lab.namespace}.t ADD CONSTRAINT odd CHECK ({constraint})")
    lab.produce(topic, [{"n": 2, "s": "two"}])
    failed = lab.failed(lab.started[-1])
    assert not isinstance(failed, NotTheRecords), failed
    assert judge(error=failed, text=lab.started[-1].failure()[1]).failure_class in (
        FailureClass.POISON, FailureClass.INFRA,
    )  # fmt: skip
