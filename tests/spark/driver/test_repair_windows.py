"""Windows computed again with the rows that came late, beside the running stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakeward.connectors.commit_protocol.position import of_properties
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill.backfill import Report, repair_windows
from lakeward.platform.errors import Refused
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

_T = datetime(2026, 1, 1, tzinfo=UTC)
"""Long before the records are written: event times lie in the past."""


class Died(RuntimeError):
    pass


def _die() -> None:
    raise Died


def _at(minutes: float, key: str = "a") -> dict[str, Any]:
    return {"at": (_T + timedelta(minutes=minutes)).isoformat(), "k": key}


def _spec(lab: Any, topic: str, sql: str, **sink: Any) -> dict[str, Any]:
    document: dict[str, Any] = lab.spec(
        topic, decode={"json": "at TIMESTAMP, k STRING"}, watermark={"column": "at", "delay": "1m"}, lineage="none",
        transform={"sql": sql}, sink={"iceberg": {"table": f"{lab.namespace}.t", **sink}},
        # Which batch closes a window is told by the records alone.
        spark={"spark.sql.shuffle.partitions": 1, "spark.sql.streaming.noDataMicroBatches.enabled": False},
    )  # fmt: skip
    return document


def _run(lab: Any, document: dict[str, Any], low: float, high: float, **more: Any) -> Report:
    wanted = Assignment(document["id"], 1, document, "")
    first, last = (_T + timedelta(minutes=each) for each in (low, high))
    return repair_windows(lab.spark, wanted, lab.runtime, first, last, **more)


def _rows(lab: Any) -> dict[tuple[float, str], int]:
    rows = lab.rows(columns="unix_timestamp(w) AS w, k, c")
    found = {((row["w"] - _T.timestamp()) / 60, row["k"]): row["c"] for row in rows}
    assert len(found) == len(rows), "no window twice"
    return found


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
@pytest.mark.parametrize("steps", [("after-stage", "after-publish")], ids=["each step"])
def test_closed_windows_get_their_late_rows_and_open_ones_stay(lab: Any, catalog: Any, steps: tuple[str, ...]) -> None:
    topic = lab.topic()
    document = _spec(
        lab, topic, "SELECT window.start AS w, k, count(*) AS c FROM source GROUP BY window(at, '10 minutes'), k"
    )
    lab.produce(topic, [_at(1), _at(2), _at(11), "junk", _at(41)])
    lab.start(document)
    lab.until("the first batch", lambda: lab.done)
    lab.land(topic, _at(42))
    lab.land(topic, _at(3), _at(3, "b"), _at(12), _at(43))  # 3 and 12 are late: their windows were closed by 41
    assert _rows(lab) == {(0, "a"): 2, (10, "a"): 1}
    lab.spark.sql(f"DELETE FROM lake.{lab.namespace}.q")

    for step in steps:
        with failpoints.on(step, _die), pytest.raises(Died):
            _run(lab, document, 0, 60, margin=timedelta(0))
    done = _run(lab, document, 0, 60, margin=timedelta(0))
    assert _rows(lab) == {(0, "a"): 3, (0, "b"): 1, (10, "a"): 2}
    assert done.windows is not None and "left out" in done.windows and "00:41:00" in done.windows
    assert lab.rows("q") == [], "what cannot be decoded was put aside when the stream read it"

    lab.spark.sql(f"UPDATE lake.{lab.namespace}.t SET c = 99")
    assert _run(lab, document, 10, 25).landed == 1
    assert _rows(lab) == {(0, "a"): 99, (0, "b"): 99, (10, "a"): 2}, "only the windows that lie whole in the range"
    properties = catalog.load_table(f"{lab.namespace}.t").properties
    assert [name for name in of_properties(properties, "t") if "@" in name] == []

    lab.land(topic, _at(81))
    lab.land(topic, _at(82))
    assert _rows(lab)[(40, "a")] == 3, "the stream lands its open windows itself"
    with pytest.raises(Refused, match="no closed window of 0:10:00 is between"):
        _run(lab, document, 80, 90)

    admin = AdminClient({"bootstrap.servers": lab.kafka.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        deleted.result(60)
    with pytest.raises(Refused, match=f"{topic}/0: 0 to 1"):
        _run(lab, document, 0, 20)
    assert _rows(lab)[(0, "a")] == 99, "nothing is replaced by less than there was"


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
def test_sliding_windows_by_key(lab: Any) -> None:
    topic = lab.topic()
    sql = "SELECT window.end AS w, k, count(*) AS c FROM source GROUP BY window(at, '20 minutes', '10 minutes'), k"
    document = _spec(lab, topic, sql, mode="upsert", keys=["w", "k"])
    lab.produce(topic, [_at(1), _at(61)])
    lab.run(document, 2)
    lab.produce(topic, [_at(2), _at(62)])
    lab.run(document, 2)
    _run(lab, document, -20, 50)
    assert _rows(lab) == {(10, "a"): 2, (20, "a"): 2, (70, "a"): 2, (80, "a"): 2}
