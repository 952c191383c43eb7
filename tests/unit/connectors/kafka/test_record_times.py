"""Times of records that are no times: a producer gives -1, or microseconds or nanoseconds for milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.kafka import broker, peek, sample
from lakeward.driver.lag import LagThread, Watched
from lakeward.platform.runtime import Lake, Runtime
from lakeward.platform.text import LATEST
from lakeward.registry.observations import Watch
from lakeward.spec.model.sources import KafkaSource
from lakeward.supervision.report import lag as report

NONE, MICROS, NANOS = -1, 1_700_000_000_000_000, 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def topic(kafka: Any) -> str:
    """A partition for each time, with one record; brokers before 4.0 take any time, newer ones if told to."""
    from confluent_kafka import Producer

    name = str(kafka.create_topic(partitions=3, config={"message.timestamp.after.max.ms": str(2**63 - 1)}))
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for partition, at in enumerate((NONE, MICROS, NANOS)):
        producer.produce(name, b"x", partition=partition, timestamp=at)
    assert producer.flush(60) == 0
    return name


def test_a_record_without_a_time_has_no_age_and_one_of_no_year_is_of_the_last(kafka: Any, topic: str) -> None:
    found = broker.written_at(kafka.cluster, {topic: {0: 0, 1: 0, 2: 0}}, timeout_s=30)
    assert found == {(topic, 1): LATEST.timestamp(), (topic, 2): LATEST.timestamp()}


def test_such_records_are_shown_and_sampled(kafka: Any, topic: str) -> None:
    end = {topic: {0: 1, 1: 1, 2: 1}}
    shown = peek.records(kafka.cluster, {topic: {}}, end, timeout_s=30)
    assert [each.written_at.year for each in shown] == [1969, LATEST.year, LATEST.year]
    rows = sample.newest(kafka.cluster, {topic: {}}, end, most=3)
    assert {row[6].astimezone(UTC).year for row in rows} == {1969, LATEST.year}


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_the_lag_of_such_records_is_measured_and_raises_no_alarm(
    kafka: Any, topic: str, tmp_path: Path, partition: int
) -> None:
    at = "{" + f'"{topic}":' + "{" + ",".join(f'"{each}":{int(each != partition)}' for each in range(3)) + "}}"
    noted: list[int | None] = []
    seen: list[Watch] = []
    LagThread(
        lambda: [Watched("s", "source", kafka.cluster, (topic,), at)],
        lambda stream, records, seconds: noted.append(records),
        lambda stream, found: seen.append(found),
    ).once()
    assert noted == [1]
    oldest = seen[0]["oldest"]
    assert oldest is None if partition == 0 else datetime.fromisoformat(str(oldest)) == LATEST

    lake = Lake(host="none", port=1, database="none", user="none", warehouse=str(tmp_path))
    runtime = Runtime(
        registry_url_file=tmp_path / "none", lake=lake, kafka={"lakeward_kafka": kafka.bootstrap},
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip
    source = KafkaSource(topics=(topic,), max_offsets_per_trigger=1)
    measured = report.of_kafka("source", source, at, runtime)
    assert measured.oldest_s == (None if partition == 0 else 0.0), "none of 57 years, by which it would have expired"
