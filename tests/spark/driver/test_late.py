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

    def names(self) -> list[str]:
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
    lab.produce(topic, [at("first", "10:05:00")])  # before the start: else Spark's first batch may be an empty one
    lab.start(windowed(lab, topic, SLIDING))
    lab.until("the first record", lambda: sum(done.consumed for done in lab.done) == 1)
    seen = Seen(lab, topic)
    seen.send(at("in time for this batch", "09:00:00"), at("moves nothing", "10:05:00"), "junk")
    assert seen.dropped() == seen.kept() == Counter()
    seen.send(
        at("one window ends at the watermark", "09:50:00"),
        at("one window just ends", "09:54:59.999999"),
        at("both windows", "09:49:59.999999"),
        at("no window", "09:55:00"),
        at("no time", None),
        at("x is filtered", "09:00:00"),
    )
    assert seen.names() == ["both windows", "one window ends at the watermark", "one window just ends"]
    assert seen.dropped() == seen.kept() == Counter({2: 4})
    assert seen.records() == Counter({2: 3})
    assert [row["reason"] for row in lab.rows("q")] == ["decode"]

    [row] = [row for row in lab.rows("late") if json.loads(row["row"])["k"] == "both windows"]
    assert (row["stream"], row["source"], row["reason"]) == (f"s_{lab.namespace}", "source", "late")
    assert row["kept"] == "record"
    assert (row["_kafka_topic"], row["_kafka_offset"], row["generation"]) == (topic, 6, 1)
    assert json.loads(bytes(row["raw"])) == at("both windows", "09:49:59.999999")
    assert re.fullmatch(
        "closed windows: 2026-03-01 09:40:00 to 2026-03-01 09:50:00, 2026-03-01 09:45:00 to 2026-03-01 09:55:00; "
        "watermark: 2026-03-01 09:55:00",
        row["error"],
    )
    assert row["_ingested_at"] is not None
    assert row["replay"] is None


def _tumbling(lab: Any, topic: str) -> dict[str, Any]:
    return windowed(lab, topic, TUMBLING)


def _unique(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    return late_stream(lab, topic, **{"deduplicate": {"keys": ["k"]}, **more})


def _for_ever(lab: Any, topic: str) -> dict[str, Any]:
    return _unique(lab, topic, deduplicate={"keys": ["k"], "within_watermark": False})


def _filtered(lab: Any, topic: str) -> dict[str, Any]:
    """A WHERE behind the state: a record is dropped as late before it is compared."""
    return _unique(lab, topic, transform={"sql": "SELECT * FROM source WHERE k NOT LIKE 'x%'"})


def _unique_in_windows(lab: Any, topic: str) -> dict[str, Any]:
    return windowed(lab, topic, TUMBLING, deduplicate={"keys": ["k"]})


def _sessions(lab: Any, topic: str) -> dict[str, Any]:
    return windowed(lab, topic, SESSION)


def _long_sessions(lab: Any, topic: str) -> dict[str, Any]:
    return windowed(lab, topic, "session_window(at, CASE WHEN k LIKE 'y%' THEN '1 hour' ELSE '5 minutes' END)")


def _upsert(lab: Any, topic: str) -> dict[str, Any]:
    sink = {"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["ends", "k"]}}
    sql = f"SELECT {TUMBLING}.end AS ends, k, count(*) AS n FROM source GROUP BY {TUMBLING}, k HAVING n > 0"
    return late_stream(lab, topic, sink=sink, transform={"sql": sql})


def _by_a_function(lab: Any, topic: str) -> dict[str, Any]:
    """The WHERE calls Python of the project."""
    plain = windowed(lab, topic, TUMBLING)["transform"]["sql"]
    transform = {
        "sql": plain.replace("k NOT LIKE 'x%'", "wanted(k)"),
        "udfs": {"wanted": {"python": "mine:wanted", "returns": "BOOLEAN"}},
        "code": {"mine.py": "def wanted(k):\n    return not k.startswith('x')\n"},
    }
    return late_stream(lab, topic, transform=transform)


def _to_the_log(lab: Any, topic: str) -> dict[str, Any]:
    return windowed(lab, topic, TUMBLING, sink={"console": {}}, quarantine={"table": f"{lab.namespace}.q"})


EDGES = [
    at("a at", "09:50:00.123"),
    at("a above", "09:50:00.123001"),
    at("a below", "09:50:00.122999"),
    at("ends at", "09:45:00.123"),
    at("ends above", "09:45:00.123001"),
    at("y old", "09:00:00"),
    at("y older", "08:40:00"),
    at("x old", "08:30:00"),
    at("a null", None),
    at("w end", "09:49:59.999999"),
    at("w in time", "09:55:00"),
]
OLD = ["ends above", "ends at", "x old", "y old", "y older"]


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("make", "late"),
    [
        pytest.param(_tumbling, {"ends above", "ends at", "w end", "y old", "y older"}, id="tumbling"),
        pytest.param(_upsert, {*OLD, "w end"}, id="upsert"),
        pytest.param(_to_the_log, {"ends above", "ends at", "w end", "y old", "y older"}, id="console"),
        pytest.param(_by_a_function, {"ends above", "ends at", "w end", "y old", "y older"}, id="function"),
        pytest.param(_sessions, {"ends at", "y old", "y older"}, id="session"),
        pytest.param(_long_sessions, {"ends at", "y older"}, id="session of a case"),
        pytest.param(_unique, {*OLD, "a at", "a below", "w end"}, id="deduplicate"),
        pytest.param(_for_ever, {*OLD, "a at", "a below", "w end"}, id="deduplicate for ever"),
        pytest.param(_filtered, {*OLD, "a at", "a below", "w end"}, id="deduplicate and where"),
        pytest.param(_unique_in_windows, {*OLD, "a at", "a below", "w end"}, id="deduplicate in windows"),
    ],
)
def test_late_is_what_spark_drops_to_the_microsecond(lab: Any, make: Any, late: set[str]) -> None:
    """The watermark is 09:50:00.123, of an event at .123456: it has milliseconds, and each record its own key."""
    topic = lab.topic()
    lab.start(make(lab, topic))
    seen = Seen(lab, topic)
    seen.send(at("first", "10:00:00.123456"), at("before 1970", None) | {"at": "1969-12-31T23:00:00Z"})
    seen.send(at("in time for this batch", "08:59:00"))
    seen.send(*EDGES)
    assert "before 1970" in seen.names(), "the first batch has a watermark too: 1970"
    assert set(seen.names()) == late | {"before 1970"}
    assert seen.dropped() == seen.kept() == seen.records()


@pytest.mark.campaign
def test_late_records_are_kept_once_through_restarts_and_repeated_batches(lab: Any) -> None:
    topic = lab.topic()
    mark = {"column": "at", "delay": "10m", "max_ahead": "off"}
    document = windowed(lab, topic, TUMBLING, watermark=mark)
    seen = Seen(lab, topic)

    def die() -> None:
        raise RuntimeError("killed")

    lab.produce(topic, [at("first", "10:05:00")])
    lab.run(document, 1)
    lab.produce(topic, [at("one", "09:00:00"), at("second", "10:05:00")])
    lab.run(document, 2)
    assert seen.names() == [], "the first start has left no watermark for the late rows of its second batch"
    for step, key in (("after-quarantine", "two"), ("before-publish", "three"), ("before-return", "four")):
        lab.produce(topic, [at(key, "09:00:00"), at(f"{key} x", None)])
        with failpoints.on(step, die):
            lab.fail(document)
        assert key in seen.names(), step
        lab.started.clear()
        lab.run(document, 2)
        assert seen.names().count(key) == 1, step
    assert seen.names() == ["four", "three", "two"]
    assert seen.dropped() == seen.kept() == Counter({2: 1, 3: 1, 4: 1})
    assert seen.records() == seen.kept()
    times = [json.loads(_offsets(lab, document, batch)[1])["batchTimestampMs"] for batch in (2, 3, 4)]
    kept = lab.rows("late", "unix_millis(_ingested_at) AS at, _kafka_offset AS offset")
    assert [row["at"] for row in sorted(kept, key=lambda row: row["offset"])] == times, "as in the plan of the query"


@pytest.mark.campaign
def test_a_batch_that_has_landed_before_its_stream_keeps_late_records_is_no_exception(lab: Any) -> None:
    topic = lab.topic()
    document = windowed(lab, topic, TUMBLING)
    without = {key: value for key, value in document.items() if key != "late"}
    lab.produce(topic, [at("first", "10:05:00")])
    lab.run(without, 1)
    lab.produce(topic, [at("second", "10:05:00")])
    lab.run(without, 1)
    lab.produce(topic, [at("late", "09:00:00"), at("third", "10:05:00")])

    def die() -> None:
        raise RuntimeError("killed after the table was told, before Spark was")

    with failpoints.on("before-return", die):
        lab.fail(without)
    lab.started.clear()
    lab.run(document, 2)
    assert lab.done[-1].outcome.already
    assert Seen(lab, topic).names() == ["late"]


def _offsets(lab: Any, document: dict[str, Any], batch: int) -> list[str]:
    """The lines of a batch in the offset log of the checkpoint."""
    return (lab.folder / "checkpoints" / document["id"] / "1" / "offsets" / str(batch)).read_text().splitlines()


@pytest.mark.campaign
def test_a_watermark_of_batches_without_records_counts(lab: Any) -> None:
    topic = lab.topic()
    more = {"spark": {"spark.sql.shuffle.partitions": 2}}
    lab.start(windowed(lab, topic, TUMBLING, **more))
    seen = Seen(lab, topic)
    seen.send(at("first", "10:05:00"))
    lab.until("the batch without records", lambda: any(not done.consumed for done in lab.done))
    seen.send(at("late", "09:00:00"), at("many", "09:01:00"), at("many", "09:02:00"))
    assert seen.names() == ["late", "many", "many"]
    assert sum(seen.dropped().values()) == 2, "Spark counts the groups of a window, and each record is kept"
    assert sum(seen.records().values()) == 3
