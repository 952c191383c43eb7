"""Late records are kept: exactly those that Spark drops, each once, through restarts and repeated batches."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

SLIDING = "window(at, '10 minutes', '5 minutes')"
TUMBLING = "window(at, '5 minutes')"
SESSION = "session_window(at, '5 minutes')"


def late_stream(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    return lab.spec(
        topic,
        **{
            "decode": {"json": "k STRING, at TIMESTAMP"},
            "watermark": {"column": "at", "delay": "10m"},
            "late": {"table": f"{lab.namespace}.late"},
            # A batch without records moves the watermark of late rows too: without it the order of batches is known.
            "spark": {"spark.sql.shuffle.partitions": 2, "spark.sql.streaming.noDataMicroBatches.enabled": False},
            **more,
        },
    )


def windowed(lab: Any, topic: str, window: str, **more: Any) -> dict[str, Any]:
    sql = f"SELECT {window} AS w, k, count(*) AS n FROM source WHERE k NOT LIKE 'x%' GROUP BY 1, k"
    return late_stream(lab, topic, transform={"sql": sql}, **more)


def at(key: str, time: str | None) -> dict[str, Any]:
    return {"k": key, "at": None if time is None else f"2026-03-01T{time}Z"}


class Seen:
    """What is kept, and what Spark dropped, by batch."""

    def __init__(self, lab: Any, topic: str) -> None:
        self.lab, self.topic = lab, topic

    def send(self, *records: Any) -> None:
        """Send records, each with a key of its own, and wait until they have landed: one batch."""
        before = sum(done.consumed for done in self.lab.done)
        self.lab.produce(self.topic, records)
        self.lab.until("the records", lambda: sum(done.consumed for done in self.lab.done) >= before + len(records))

    def keys(self) -> list[str]:
        return sorted(json.loads(row["row"])["k"] for row in self.lab.rows("late"))

    def dropped(self) -> Counter[int]:
        """Batch -> the rows that Spark's operators dropped by the watermark; of a repeated batch its last report."""
        batches = {done.batch_id for done in self.lab.done}
        self.lab.until("Spark's report", lambda: batches <= {each["batchId"] for each in self.lab.progress})
        found = Counter[int]()
        for each in self.lab.progress:
            found[each["batchId"]] = sum(op["numRowsDroppedByWatermark"] for op in each["stateOperators"])
        return +found

    def kept(self) -> Counter[int]:
        """Batch -> the windows (or the records) of the late rows that the table has."""
        found = Counter[int]()
        for row in self.lab.rows("late"):
            found[self._batch(row)] += row["error"].count(" to ") or 1
        return found

    def records(self) -> Counter[int]:
        """Batch -> the late records that it reported."""
        return +Counter({done.batch_id: done.late for done in self.lab.done})

    def _batch(self, row: dict[str, Any]) -> int:
        def end(text: str) -> int:
            return 0 if text == "-" else int(json.loads(text)[row["_kafka_topic"]]["0"])

        found = {
            done.batch_id
            for done in self.lab.done
            if end(done.outcome.batch.start["source"]) <= row["_kafka_offset"] < end(done.outcome.batch.end["source"])
        }
        assert len(found) == 1
        return found.pop()


def test_what_sliding_windows_drop_is_kept_and_nothing_else(lab: Any) -> None:
    """A record is late for one of its windows, for all, or for none; the watermark is that of the batch before."""
    topic = lab.topic()
    lab.start(windowed(lab, topic, SLIDING))
    seen = Seen(lab, topic)
    seen.send(at("first", "10:05:00"))
    seen.send(at("in time for this batch", "09:00:00"), at("moves nothing", "10:05:00"))
    assert seen.dropped() == seen.kept() == Counter()
    seen.send(
        at("one window ends at the watermark", "09:50:00"),
        at("one window just ends", "09:54:59.999999"),
        at("both windows", "09:49:59.999999"),
        at("no window", "09:55:00"),
        at("no time", None),
        at("x is filtered", "09:00:00"),
        "junk",
    )
    assert seen.keys() == ["both windows", "one window ends at the watermark", "one window just ends"]
    assert seen.dropped() == seen.kept() == Counter({2: 4})
    assert seen.records() == Counter({2: 3})
    assert [row["reason"] for row in lab.rows("q")] == ["decode"]

    [row] = [row for row in lab.rows("late") if json.loads(row["row"])["k"] == "both windows"]
    assert (row["stream"], row["source"], row["reason"], row["kept"]) == (f"s_{lab.namespace}", "source", "late", "record")
    assert (row["_kafka_topic"], row["_kafka_offset"], row["generation"]) == (topic, 5, 1)
    assert json.loads(bytes(row["raw"])) == at("both windows", "09:49:59.999999")
    assert re.fullmatch(
        "closed windows: 2026-03-01 09:40:00 to 2026-03-01 09:50:00, 2026-03-01 09:45:00 to 2026-03-01 09:55:00; "
        "watermark: 2026-03-01 09:55:00",
        row["error"],
    )
    assert row["_ingested_at"] is not None
    assert row["replay"] is None
