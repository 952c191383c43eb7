"""Duplicates are dropped by key, across batches and restarts, and every record is accounted for."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from lakeward.connectors.iceberg import pyiceberg_table
from lakeward.connectors.iceberg.audit import audit
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.errors import SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def unique(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    return lab.spec(
        topic,
        decode={"json": "id INT, at TIMESTAMP"},
        watermark={"column": "at", "delay": "1h"},
        deduplicate={"keys": ["id"]},
        lineage="rows",
        # A batch without records, for the watermark alone, may be over before the stream is stopped, or not.
        spark={"spark.sql.shuffle.partitions": 2, "spark.sql.streaming.noDataMicroBatches.enabled": False},
        **more,
    )


def event(id: int, hour: int = 10) -> dict[str, Any]:
    return {"id": id, "at": f"2026-03-01T{hour:02d}:00:00Z"}


def test_duplicates_are_dropped_and_counted_as_filtered(lab: Any) -> None:
    topic = lab.topic()
    document = unique(lab, topic)

    def ids() -> list[int]:
        return sorted(row["id"] for row in lab.rows())

    lab.produce(topic, [event(1), event(1), event(2), "junk", {"id": 7}])
    running = lab.start(document)
    lab.until("the first batch", lambda: sum(done.consumed for done in lab.done) == 5)
    assert ids() == [1, 2, 7], "a record without event time is compared too"

    def die() -> None:
        raise RuntimeError("killed after the table was told, before Spark was")

    with failpoints.on("before-return", die):
        lab.produce(topic, [event(1), event(3)])
        lab.failed(running)
    lab.started.clear()
    lab.start(document)
    lab.until("the batch again", lambda: sum(done.consumed for done in lab.done) == 7)
    assert lab.done[-1].outcome.already
    lab.land(topic, event(3), event(4, hour=20))
    assert ids() == [1, 2, 3, 4, 7], "the state of a batch that was landed already is kept"

    lake = load_catalog("lake", **pyiceberg_properties(lab.runtime.lake, lab.runtime.pgpass))
    table, aside = (lake.load_table(f"{lab.namespace}.{name}") for name in "tq")
    found = audit(table, document["id"], pyiceberg_table.positions(table)[document["id"]], aside)
    assert (found.consumed, found.landed, found.quarantined, found.filtered) == (9, 5, 1, 3)
    assert (found.missing, found.duplicates, found.beyond) == (0, 0, 0)


def test_a_join_that_doubles_a_record_is_found_with_state_too(lab: Any) -> None:
    topic, file = lab.topic(), lab.folder / "names.csv"
    file.write_text("id,name\n1,one\n1,uno\n")
    reference = {"names": {"csv": str(file), "columns": "id INT, name STRING"}}
    sql = "SELECT source.*, names.name FROM source LEFT JOIN names ON names.id = source.id"
    lab.produce(topic, [event(1), event(2)])
    error = lab.fail(unique(lab, topic, reference=reference, transform={"sql": sql}))
    assert isinstance(error, SpecError)
    assert "several rows for one record" in str(error)
    assert lab.rows() == []
