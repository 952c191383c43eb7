"""Streams end to end: what lands, what is kept aside, what is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_good_rows_land_and_each_kind_of_bad_record_is_kept_with_its_reason(lab: Any) -> None:
    topic = lab.topic(**{"max.message.bytes": "12000000"})
    large = "x" * 5_000_000
    lab.produce(
        topic,
        [
            {"n": 1, "s": "good"}, "not json", {"n": "1"}, {"n": 2.5}, {"n": 3_000_000_000}, '{"n": 4} and more',
            None, [{"n": 5}], b'{"s": "\xff"}', {"n": 6, "s": large}, "y" * 5_000_000, {"n": 7, "s": "filtered"},
            {"n": 901, "s": "breaks a rule"}, {"s": "n is unknown"}, {"n": 8, "s": large + large[:2_000_000]},
        ],
    )  # fmt: skip
    document = lab.spec(
        topic,
        decode={"json": "n INT, s STRING", "max_bytes": "6MB"},
        transform={"sql": "SELECT * FROM source WHERE s IS DISTINCT FROM 'filtered'"},
        rules={"small": "n < 900"},
    )
    lab.run(document, 15)

    landed = {row["_kafka_offset"]: row for row in lab.rows()}
    assert {offset: row["n"] for offset, row in landed.items()} == {0: 1, 9: 6, 13: None}
    assert len(landed[9]["s"]) == 5_000_000
    kept = {row["_kafka_offset"]: row for row in lab.rows("q")}
    assert {offset: row["error"] for offset, row in kept.items()} == {
        1: "not one JSON object",
        2: 'n: not INT: "1"',
        3: "n: not INT: 2.5",
        4: "n: not INT: 3000000000",
        5: "not one JSON object",
        6: "no value (a tombstone)",
        7: "an array, not one JSON object",
        8: "not UTF-8",
        10: "not one JSON object",
        12: "not: n < 900",
        14: "7,000,017 bytes, more than decode: max_bytes: 6,291,456",
    }
    assert {row["reason"] for row in kept.values()} == {"decode", "small", "too_large"}
    assert {offset: row["kept"] for offset, row in kept.items() if row["kept"] != "value"} == {
        10: "part",
        12: "record",
        14: "part",
    }
    assert {row["generation"] for row in kept.values()} == {1}
    assert bytes(kept[2]["raw"]) == b'{"n": "1"}'
    assert len(kept[10]["raw"]) <= 1 << 20, "what is kept of a bad record is bounded"
    assert bytes(kept[12]["raw"]) == b'{"n": 901, "s": "breaks a rule"}', "the record as it came"
    assert json.loads(kept[12]["row"])["_kafka_offset"] == 12, "and what the transform made of it"

    position = json.loads(_position(lab, document))
    assert position["totals"] == {"consumed": 15, "landed": 3, "quarantined": 11, "filtered": 1, "skipped": 0}


@pytest.mark.campaign(
    held_by="tests/faults/test_exactly_once.py::test_every_sink_and_mode_killed_at_a_step_has_every_record_once"
)
def test_a_batch_that_runs_twice_lands_and_quarantines_once(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, "junk", {"n": 2}])
    document = lab.spec(topic)

    class Died(RuntimeError):
        pass

    def die() -> None:
        raise Died

    for step in ("after-quarantine", "after-publish", "before-return"):
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    lab.run(document, 3)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2]
    assert len(lab.rows("q")) == 1
    assert lab.done[-1].outcome.already


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_references.py::"
    "test_each_batch_joins_the_newest_version_and_needs_it_no_more_once_read"
)
def test_a_reference_is_read_again_without_a_restart(lab: Any) -> None:
    topic, file = lab.topic(), Path(lab.folder) / "names.csv"
    file.write_text("n,name\n1,one\n")
    document = lab.spec(
        topic,
        reference={"names": {"csv": str(file), "columns": "n INT, name STRING", "refresh": "100ms"}},
        transform={"sql": "SELECT source.*, names.name FROM source LEFT JOIN names ON names.n = source.n"},
    )
    lab.start(document)
    lab.produce(topic, [{"n": 1}])
    lab.until("the first row", lambda: sum(d.consumed for d in lab.done) == 1)
    file.write_text("n,name\n1,ONE\n2,TWO\n")
    lab.produce(topic, [{"n": 1}, {"n": 2}, {"n": 3}])
    lab.until("the other rows", lambda: sum(d.consumed for d in lab.done) == 4)
    assert sorted((row["_kafka_offset"], row["name"]) for row in lab.rows()) == [
        (0, "one"), (1, "ONE"), (2, "TWO"), (3, None),
    ]  # fmt: skip


def test_windows_land_once_final_late_rows_are_counted_and_bad_ones_kept(lab: Any) -> None:
    topic = lab.topic()
    document = lab.spec(
        topic,
        decode={"json": "origin STRING, t TIMESTAMP"},
        watermark={"column": "t", "delay": "2h"},
        transform={"sql": "SELECT window(t, '1 hour').start AS hour, origin, count(*) AS n FROM source "
                          "GROUP BY window(t, '1 hour'), origin"},
        spark={"spark.sql.shuffle.partitions": 2},
    )  # fmt: skip

    def at(hour: int) -> dict[str, str]:
        return {"origin": "JFK", "t": f"2013-01-01T{hour:02d}:30:00Z"}

    lab.produce(topic, [*(at(hour) for hour in range(6) for _ in range(hour + 1)), "junk"])
    running = lab.start(document)
    lab.until("the first windows", lambda: sum(d.outcome.landed for d in lab.done) == 3)
    lab.produce(topic, [at(0), at(12)])
    lab.until("the other windows", lambda: sum(d.outcome.landed for d in lab.done) == 6)
    assert running.stop(60)
    rows = sorted((row["hour"].hour, row["n"]) for row in lab.rows())
    assert rows == [(hour, hour + 1) for hour in range(6)], "the late row of hour 0 must not have reopened its window"
    assert [(row["_kafka_offset"], row["error"]) for row in lab.rows("q")] == [(21, "not one JSON object")]
    lab.until("the last report", lambda: lab.progress and lab.progress[-1]["batchId"] >= lab.done[-1].batch_id)
    late = sum(int(op["numRowsDroppedByWatermark"]) for each in lab.progress for op in each["stateOperators"])
    assert late == 1
    assert lab.done[-1].complete_through == "2013-01-01T10:30:00.000Z"
    assert sum(done.consumed for done in lab.done) == 24


def test_alerts_reach_kafka_with_key_and_position(lab: Any) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic, alerts = lab.topic(), lab.topic()
    lab.produce(topic, [{"n": n, "s": f"row {n}"} for n in range(10)])
    document = lab.spec(
        topic,
        transform={"sql": "SELECT * FROM source WHERE n >= 7"},
        sink={"kafka": {"topic": alerts, "key": "concat('k', n)"}},
    )
    lab.run(document, 10)
    consumer = Consumer({"bootstrap.servers": lab.kafka.bootstrap, "group.id": alerts})
    consumer.assign([TopicPartition(alerts, 0, 0)])
    try:
        found = consumer.consume(3, timeout=30)
    finally:
        consumer.close()
    assert [each.key() for each in found] == [b"k7", b"k8", b"k9"]
    assert [json.loads(each.value())["_kafka_offset"] for each in found] == [7, 8, 9]
    assert (lab.done[0].consumed, lab.done[0].outcome.landed, lab.done[0].outcome.filtered) == (10, 3, 7)


def test_key_and_headers_are_columns_as_the_producer_sent_them_and_a_stop_replays_nothing(lab: Any) -> None:
    from confluent_kafka import Producer

    topic, producer = lab.topic(), Producer({"bootstrap.servers": lab.kafka.bootstrap})
    headers = [("trace", b"\x00\xff"), ("trace", None)]
    producer.produce(topic, b'{"n": 1}', key=b"k\xff", headers=headers, partition=0)
    producer.produce(topic, b'{"n": 2}', partition=0)
    producer.produce(topic, b"junk", key=b"k", partition=0)
    assert producer.flush(60) == 0
    document = lab.spec(topic, decode={"json": "n INT", "columns": "all"})
    lab.run(document, 3)
    first, second = sorted(lab.rows(), key=lambda row: row["n"])
    assert (bytes(first["_kafka_key"]), second["_kafka_key"], second["_kafka_headers"]) == (b"k\xff", None, None)
    sent = [(each["key"], None if each["value"] is None else bytes(each["value"])) for each in first["_kafka_headers"]]
    assert sent == headers
    assert [row["_kafka_offset"] for row in lab.rows("q")] == [2]

    lab.produce(topic, [{"n": 3}])
    lab.run(document, 1)
    assert [done.outcome.already for done in lab.done] == [False] * len(lab.done), "a stop replays nothing"
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]
    seqs = [done.outcome.seq for done in lab.done]
    assert seqs == sorted(set(seqs))


def _position(lab: Any, document: dict[str, Any]) -> str:
    rows = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t").collect()
    return str(next(row["value"] for row in rows if row["key"] == f"lakeward.stream.{document['id']}.position"))


def _dated_2099(lab: Any, **more: Any) -> tuple[dict[str, Any], Any]:
    """600 records of now, one dated 2099, and 300 more of now, by windows of a minute, which a last record closes."""
    from datetime import UTC, datetime, timedelta

    topic = lab.topic()
    mark = {"column": "t", "delay": "10m", **more.pop("mark", {})}
    document = lab.spec(
        topic,
        decode={"json": "t TIMESTAMP"},
        watermark=mark,
        transform={"sql": "SELECT window(t, '1 minute').start AS minute, count(*) AS n FROM source "
                          "GROUP BY window(t, '1 minute')"},
        spark={"spark.sql.shuffle.partitions": 2},
        **more,
    )  # fmt: skip
    base = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=40)

    def sent(first: int, number: int) -> list[dict[str, str]]:
        return [{"t": (base + timedelta(seconds=first + each)).isoformat()} for each in range(number)]

    def send() -> None:
        lab.produce(topic, sent(0, 600))
        lab.until("the first", lambda: sum(d.consumed for d in lab.done) == 600)
        lab.produce(topic, [{"t": "2099-01-01T00:00:00Z"}])
        lab.until("the one of 2099", lambda: sum(d.consumed for d in lab.done) == 601)
        lab.produce(topic, sent(600, 300))
        lab.until("the others", lambda: sum(d.consumed for d in lab.done) == 901)
        lab.produce(topic, [{"t": (base + timedelta(minutes=39)).isoformat()}])  # closes the windows before
        lab.until("the last", lambda: sum(d.consumed for d in lab.done) == 902)

    return document, send


def test_a_record_dated_2099_is_quarantined_and_every_other_one_is_counted(lab: Any) -> None:
    document, send = _dated_2099(lab)
    running = lab.start(document)
    send()
    lab.until_batch("all windows", lambda: sum(row["n"] for row in lab.rows()) >= 900)
    assert running.stop(60)
    assert sum(row["n"] for row in lab.rows()) == 900
    [kept] = lab.rows("q")
    assert (kept["reason"], kept["_kafka_offset"], bytes(kept["raw"])) == (
        "ahead",
        600,
        b'{"t": "2099-01-01T00:00:00Z"}',
    )
    assert kept["error"].startswith("t is 2099-01-01")
    assert "more than max_ahead (1h) after" in kept["error"]
    assert all(int(op["numRowsDroppedByWatermark"]) == 0 for each in lab.progress for op in each["stateOperators"])


@pytest.mark.campaign(held_by="tests/spark/driver/test_refusals.py::test_bad_rows_without_a_quarantine_stop_the_stream")
def test_a_record_from_the_future_without_a_quarantine_table_blocks_the_stream_with_words(lab: Any) -> None:
    document, _ = _dated_2099(lab)
    lab.produce(document["source"]["kafka"]["topics"][0], [{"t": "2099-01-01T00:00:00Z"}])
    document.pop("quarantine")
    error = lab.fail(document)
    assert "1 invalid rows and no quarantine table configured" in str(error)
    assert "the first failed ahead: t is 2099-01-01" in str(error)


@pytest.mark.campaign(held_by="test_a_record_dated_2099_is_quarantined_and_every_other_one_is_counted")
def test_a_record_from_the_future_is_quarantined_row_by_row_too_and_off_lets_it_through(lab: Any) -> None:
    for state, mark, landed in (("on", {}, 1), ("off", {"max_ahead": "off"}, 2)):
        topic = lab.topic()
        lab.produce(topic, [{"n": 1, "s": "2013-01-01T00:00:00Z"}, {"n": 2, "s": "2099-01-01T00:00:00Z"}])
        document = lab.spec(
            topic,
            id=f"s_{lab.namespace}_{state}",
            decode={"json": "n INT, s TIMESTAMP"},
            watermark={"column": "s", "delay": "2h", **mark},
            sink={"iceberg": {"table": f"{lab.namespace}.{state}"}},
        )
        lab.run(document, 2)
        assert len(lab.rows(state)) == landed, state
    assert [row["reason"] for row in lab.rows("q")] == ["ahead"]


@pytest.mark.campaign(
    held_by="tests/unit/supervision/decide/test_lateness.py::test_a_watermark_ahead_of_the_clock_says_how_far"
)
def test_without_the_bound_the_other_records_are_late_and_the_report_of_the_driver_says_so(lab: Any) -> None:
    from datetime import UTC, datetime
    from types import SimpleNamespace

    from lakeward.driver.lateness import RecentLateness
    from lakeward.supervision.decide import lateness

    document, send = _dated_2099(lab, mark={"max_ahead": "off"})
    running = lab.start(document)
    send()
    lab.until("the last report", lambda: lab.progress and lab.progress[-1]["batchId"] >= lab.done[-1].batch_id)
    assert running.stop(60)
    recent = RecentLateness()
    late = [recent.after("s", progress) for progress in lab.progress][-1]
    assert late["dropped"] > 0
    seen: Any = SimpleNamespace(late=late)
    why = lateness.judge(seen, datetime.now(UTC), ahead_s=3600.0, reported=False)
    assert why is not None
    assert "its watermark is 2098-12-31 23:50:00 UTC" in why
