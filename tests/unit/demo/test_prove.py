from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_rows import batch

from lakeward.demo.broker import Message, Position
from lakeward.demo.flights import Record
from lakeward.demo.lake import DemoLake
from lakeward.demo.oracle import BatchRange, WindowRow
from lakeward.demo.producer import Sender
from lakeward.demo.prove import Prover, Topic, complete, planned, ranges
from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

ROOT = Path(__file__).parents[3]
SPECS = {spec.id: spec for spec in load_project(Project(ROOT)).specs}


class Tables(DemoLake):
    """Tables of a test's own making: what PyIceberg would give back."""

    def __init__(self, rows: dict[str, list[Position]], windows: list[WindowRow] | None = None) -> None:
        self._rows = rows
        self._windows = windows or []

    def positions(self, table: str, topic: str, stream: str | None = None) -> list[Position]:
        return self._rows.get(table, [])

    def windows(self, table: str) -> list[WindowRow]:
        return self._windows


def flight(hour: int, origin: str = "JFK", delay: float | None = 5.0) -> bytes:
    moment = f"2013-01-01T{hour:02d}:00:00Z"
    return json.dumps({"time_hour": moment, "origin": origin, "dep_delay": delay, "carrier": "AA"}).encode()


def topic(*values: bytes | None) -> Topic:
    return Topic("flights", {0: [Message(Position(0, at), 1000 * at, value) for at, value in enumerate(values)]})


def at(*offsets: int) -> list[Position]:
    return [Position(0, offset) for offset in offsets]


def test_good_rows_landed_and_broken_ones_kept_is_a_proof() -> None:
    lake = Tables({"nyc.flights": at(0, 2), "nyc.flights_quarantine": at(1)})
    proof = Prover("", lake, topic(flight(1), b"{", flight(2))).rows(SPECS["flights"], [])
    assert proof.wrong == ()
    assert (proof.produced, proof.landed, proof.quarantined, proof.missing, proof.duplicates) == (3, 2, 1, 0, 0)


@pytest.mark.parametrize(
    ("landed", "kept", "words"),
    [
        (at(0), at(1), "1 records are missing"),
        (at(0, 2, 2), at(1), "1 records are stored more than once"),
        (at(0, 2, 9), at(1), "positions that the broker does not have"),
        (at(0), at(1, 2), "quarantine has 1 valid records"),
        (at(0, 1, 2), [], "lacks 1 broken ones"),
        (at(0, 2), at(1, 1), "has 1 records twice"),
    ],
)
def test_anything_else_is_named(landed: list[Position], kept: list[Position], words: str) -> None:
    lake = Tables({"nyc.flights": landed, "nyc.flights_quarantine": kept})
    proof = Prover("", lake, topic(flight(1), b"{", flight(2))).rows(SPECS["flights"], [])
    assert any(words in wrong for wrong in proof.wrong), proof.wrong


def test_windows_are_computed_again_from_the_recorded_batches() -> None:
    source = topic(flight(1), flight(1, delay=20.0), flight(6), b"{", flight(1))
    batches = [BatchRange(0, {0: 0}, {0: 3}), BatchRange(1, {0: 3}, {0: 3}), BatchRange(2, {0: 3}, {0: 5})]
    right = WindowRow((_ms(1), "JFK"), (2, 2, 1, 25.0, 20.0))
    kept = {"nyc.departures_hourly_quarantine": at(3)}
    proof = Prover("", Tables(kept, [right]), source).windows(SPECS["departures_hourly"], batches)
    assert (proof.mismatched_windows, proof.late_dropped, proof.wrong) == (0, 1, ())
    lost = Prover("", Tables(kept), source).windows(SPECS["departures_hourly"], batches)
    assert lost.mismatched_windows == 1
    assert "1 of 1 windows differ" in lost.wrong[0]


def _ms(hour: int) -> int:
    return 1_356_998_400_000 + hour * 3_600_000


def test_every_very_late_departure_has_an_alert_and_repeats_are_counted(kafka: Any) -> None:
    name = kafka.create_topic()
    spec = SPECS["delay_alerts"]
    assert spec.sink.kafka is not None
    spec = spec.model_copy(
        update={"sink": spec.sink.model_copy(update={"kafka": spec.sink.kafka.model_copy(update={"topic": name})})}
    )
    source = topic(flight(1, delay=121.0), flight(1, delay=120.0), flight(2, delay=None), flight(3, delay=300.0))

    def alert(offset: int) -> Record:
        return Record(b"k", json.dumps({"_kafka_partition": 0, "_kafka_offset": offset}).encode(), "alert")

    sender = Sender(kafka.bootstrap, name)
    sender.send([alert(0), alert(0)], per_second=1e6)
    first = Prover(kafka.bootstrap, Tables({}), source).alerts(spec)
    assert (first.missing, first.duplicates) == (1, 1)
    assert any("1 alerts are missing" in wrong for wrong in first.wrong)
    sender.send([alert(3)], per_second=1e6)
    second = Prover(kafka.bootstrap, Tables({}), source).alerts(spec)
    assert (second.missing, second.landed, second.wrong) == (0, 2, ())
    sender.send([alert(1)], per_second=1e6)
    third = Prover(kafka.bootstrap, Tables({}), source).alerts(spec)
    assert "below the limit" in third.wrong[0]


def test_recorded_batches_become_ranges_of_the_topic() -> None:
    row = batch(
        batch_id=3,
        start_offsets={"source": '{"flights":{"0":4}}'},
        end_offsets={"source": '{"flights":{"0":9,"1":2}}', "other": '{"weather":{"0":7}}', "none": "-"},
    )
    assert ranges([row], "flights") == [BatchRange(3, {0: 4}, {0: 9, 1: 2}, row.committed_at)]


def test_batches_a_killed_driver_did_not_record_come_from_sparks_own_plan(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    for number, end in enumerate([5, 5, 9, 9]):
        (folder / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"flights":{{"0":{end}}}}}')
    (folder / ".3.crc").write_bytes(b"\0")
    log = planned(tmp_path, "flights")
    assert log == {0: {0: 5}, 1: {0: 5}, 2: {0: 9}, 3: {0: 9}}
    found = complete([BatchRange(0, {0: 0}, {0: 5})], log, {0: 0})
    assert [(each.batch_id, each.start[0], each.end[0]) for each in found] == [
        (0, 0, 5),
        (1, 5, 5),
        (2, 5, 9),
        (3, 9, 9),
    ]
