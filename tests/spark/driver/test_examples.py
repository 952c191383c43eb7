"""The streams of conf/examples, carried out on real flights and weather and held against a recomputation.

Each runs over several batches with a restart in between. What it lands must be what the same SQL gives over all records
at once: for windows and outer joins of those event time has passed, for the others of all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from examples import EXAMPLES, ROOT, counted, load, produced

DAYS = 1.4
"""Of 2013: five hundred departures until the first of January ends, and a part of the second."""

FINAL = {
    "departures_per_minute": "minute + INTERVAL 1 MINUTE",
    "delays_five_minutes": "begin + INTERVAL 5 MINUTES",
    "temperature_hourly": "hour + INTERVAL 1 HOUR",
    "departures_last_hour": "until",
    "temperature_last_day": "until",
    "plane_rotations": "rests_from",
    "departures_without_weather": "scheduled_at + INTERVAL 2 HOURS",
    "driver_log_events": "begin + INTERVAL 5 MINUTES",
}
"""Example -> the event time after which a row cannot change; the others give every row at once."""


def _returns(records: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Departures of planes that would have had to be back faster than 370 miles an hour."""
    planes: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["tailnum"] is not None:
            planes.setdefault(record["tailnum"], []).append(record)
    for tail, own in planes.items():
        for before, after in pairwise(own):
            hours = (_time(after) - _time(before)).total_seconds() / 3600
            if hours > 0 and 2 * before["distance"] / hours > 370:
                mph = round(2 * before["distance"] / hours, 1)
                yield (tail, after["carrier"], after["flight"], after["origin"], _time(after), _time(before),
                       before["dest"], mph)  # fmt: skip


def _streaks(records: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """For each carrier the last and the longest run of departures not more than 15 minutes late."""
    for carrier in {record["carrier"] for record in records}:
        own = [each for each in records if each["carrier"] == carrier and each["dep_delay"] is not None]
        runs = [(good, len(list(run))) for good, run in groupby(own, lambda each: each["dep_delay"] <= 15)]
        if own:
            now = runs[-1][1] if runs[-1][0] else 0
            best = max((length for good, length in runs if good), default=0)
            yield carrier, now, best, len(own), max(map(_time, own))


IN_PYTHON: dict[str, tuple[Callable[[list[dict[str, Any]]], Iterator[tuple[Any, ...]]], str]] = {
    "impossible_returns": (
        _returns,
        "tailnum STRING, carrier STRING, flight INT, origin STRING, scheduled_at TIMESTAMP, before_at TIMESTAMP, "
        "before_to STRING, mph DOUBLE",
    ),
    "punctuality_streaks": (
        _streaks,
        "carrier STRING, streak INT, best INT, departed BIGINT, last_departure TIMESTAMP",
    ),
}
"""Example -> what it must give of the records in their order, and the columns of that."""

ELSEWHERE = ("late_departures", "departures_once", "delay_model", "delay_scores")
"""Examples that have a test of their own, as those have that land in other places than the lake."""
ALL = sorted(
    file.stem
    for file in EXAMPLES.glob("*.yaml")
    if "kafka: {topics" in (text := file.read_text()) and "  iceberg:" in text and file.stem not in ELSEWHERE
)
AT_NIGHT = (
    "carrier_totals", "delays_five_minutes", "delays_in_rows", "departures_last_hour", "departures_per_minute",
    "departures_with_airline", "departures_with_duty", "departures_with_weather", "driver_log_events",
    "impossible_returns", "plane_rotations", "punctuality_leaderboard", "punctuality_streaks", "seat_prices",
    "temperature_hourly", "temperature_last_day", "trending_destinations",
)  # fmt: skip
"""Examples that run in `make nightly` only: an example of the gate, or a test of that mode, uses the same code."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[dict[str, Any]]]:
    """Topic -> its records, in the order of their event time."""
    return {**produced(DAYS), "driver_logs": list(_log())}


def _log() -> Any:
    """A driver's log as `lakeward.telemetry.logs` writes it, four hours long."""
    begin = datetime(2026, 11, 21, 3, tzinfo=UTC)
    for number in range(240):
        at = begin + timedelta(minutes=number)
        word = "batch landed" if number % 7 else "registry not reached"
        level = "info" if number % 7 else "warning"
        yield {"timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", "level": level, "logger": "lakeward.driver", "event": word,
               **({"stream": "flights"} if number % 2 else {})}  # fmt: skip


def recompute(lab: Any, document: dict[str, Any], by_topic: dict[str, list[dict[str, Any]]]) -> Any:
    """The example's SQL over all records at once; where it is Python, the same told in another way."""
    if document["id"] in IN_PYTHON:
        told, columns = IN_PYTHON[document["id"]]
        [records] = by_topic.values()
        return lab.spark.createDataFrame(list(told(records)), columns)
    for name, source in document["sources"].items():
        records = [json.dumps(record) for record in by_topic[source["kafka"]["topics"][0]]]
        frame = lab.spark.createDataFrame([(each,) for each in records], "value STRING")
        decoded = frame.selectExpr(f"from_json(value, '{source['decode']['json']}') AS record")
        decoded.select("record.*").createOrReplaceTempView(name)
    for name, reference in document["reference"].items():
        options = {"header": "true", **({"nullValue": reference["nulls"]} if reference.get("nulls") else {})}
        frame = lab.spark.read.schema(reference["columns"]).options(**options).csv(str(ROOT / reference["csv"]))
        frame.createOrReplaceTempView(name)
    found = lab.spark.sql(document["transform"]["sql"])
    # Taken apart from what is asked of it: Spark moves a condition on a session's bounds below the merging of sessions.
    return lab.spark.createDataFrame(found.collect(), found.schema)


@pytest.mark.parametrize(
    "name",
    [*(each for each in ALL if each not in AT_NIGHT),
     *(pytest.param(each, marks=pytest.mark.campaign) for each in AT_NIGHT)],
)  # fmt: skip
def test_an_example_lands_what_a_recomputation_gives(
    lab: Any, tmp_path: Path, recorded: dict[str, list[dict[str, Any]]], name: str
) -> None:
    topics = {topic: lab.topic() for topic in recorded}
    document = load(lab, name, tmp_path, topics)
    used = {source["kafka"]["topics"][0] for source in document["sources"].values()}
    by_topic = {own: recorded[topic] for topic, own in topics.items() if own in used}
    first = {own: len(records) // 2 for own, records in by_topic.items()}
    for own, records in by_topic.items():
        lab.produce(own, records[: first[own]])
    lab.run(document, sum(first.values()))
    for own, records in by_topic.items():
        lab.produce(own, records[first[own] :])
    running = lab.start(document)
    expected = recompute(lab, document, by_topic)
    if name in FINAL:
        times = [max(_time(record) for record in records) for records in by_topic.values()]
        until = min(times) - timedelta(hours=1, minutes=10)  # the longest delay of an example, and a little
        expected = expected.where(f"{FINAL[name]} <= TIMESTAMP '{until:%Y-%m-%d %H:%M:%S}'")
    wanted = counted(expected)
    assert len(wanted) > 5, "this example proves nothing on these records"

    def landed() -> dict[str, int]:
        table = lab.spark.table(f"lake.{lab.namespace}.{name}")
        if name in FINAL:
            table = table.where(f"{FINAL[name]} <= TIMESTAMP '{until:%Y-%m-%d %H:%M:%S}'")
        return counted(table)

    lab.until_batch("every row", lambda: _idle(lab, by_topic) and sum(landed().values()) >= sum(wanted.values()))
    assert running.stop(60)
    assert landed() == wanted


def _time(record: dict[str, Any]) -> datetime:
    text = record.get("scheduled_at") or record.get("observed_at") or record["timestamp"]
    return datetime.fromisoformat(str(text)).replace(tzinfo=None)


def _idle(lab: Any, by_topic: dict[str, list[dict[str, Any]]]) -> bool:
    """Everything was consumed: nothing can change any more."""
    return sum(each.consumed for each in lab.done) >= sum(map(len, by_topic.values()))


@pytest.mark.campaign(held_by="tests/spark/driver/test_landing.py::test_alerts_reach_kafka_with_key_and_position")
@pytest.mark.parametrize("name", ["late_departures", "late_departures_now"])
def test_the_alerts_of_the_examples_come_as_messages(
    lab: Any, tmp_path: Path, recorded: dict[str, list[dict[str, Any]]], name: str
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topics = {"departures": lab.topic(), name: lab.topic()}
    document = load(lab, name, tmp_path, topics)
    records = recorded["departures"]
    lab.produce(topics["departures"], records)
    lab.run(document, len(records))
    late = [record for record in records if (record["dep_delay"] or 0) > 120]
    consumer = Consumer({"bootstrap.servers": lab.kafka.bootstrap, "group.id": "examples"})
    consumer.assign([TopicPartition(topics[name], 0, 0)])
    try:
        messages = consumer.consume(len(late), timeout=30)
    finally:
        consumer.close()
    sent = [json.loads(message.value()) for message in messages]
    assert sorted((each["carrier"], each["flight"]) for each in sent) == sorted(
        (each["carrier"], each["flight"]) for each in late
    )
    assert all("_kafka_offset" in each for each in sent)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_iceberg_source.py::test_rows_come_once_over_kills_compaction_and_a_lost_checkpoint"
)
def test_a_stream_of_another_ones_table_counts_what_that_landed(
    lab: Any, tmp_path: Path, recorded: dict[str, list[dict[str, Any]]]
) -> None:
    topic, records = lab.topic(), recorded["departures"][:600]
    upstream = load(lab, "departures_with_airline", tmp_path / "up", {"departures": topic})
    document = load(lab, "late_flights_by_airline", tmp_path / "down", {})
    lab.produce(topic, records)
    lab.run(upstream, len(records))
    table = lab.spark.table(f"lake.{lab.namespace}.departures_with_airline")
    late = 0
    for at in range(2):  # the second time over a compaction, and one more commit
        if at:
            lab.spark.sql(f"CALL lake.system.rewrite_data_files('{lab.namespace}.departures_with_airline')")
            lab.produce(topic, recorded["departures"][600:700])
            lab.run(upstream, 100)
        running = lab.start(document)
        late += 600 if not at else 100
        lab.until("every row", lambda wanted=late: _counted_flights(lab) >= wanted)
        assert running.stop(60)
    table.createOrReplaceTempView("departures")
    sql = document["transform"]["sql"]
    assert counted(lab.spark.table(f"lake.{lab.namespace}.late_flights_by_airline")) == counted(lab.spark.sql(sql))


def _counted_flights(lab: Any) -> int:
    found = lab.spark.sql(f"SELECT sum(flights) FROM lake.{lab.namespace}.late_flights_by_airline").first()
    return int(found[0] or 0)
