"""The event log stays bounded and readable."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest

from lakeward.engine import event_log


def _write(file: Path, events: list[str]) -> None:
    with pyarrow.output_stream(str(file), compression="zstd") as sink:
        for name in events:
            sink.write(json.dumps({"Event": name, "Rest": "x" * 5000}, separators=(",", ":")).encode() + b"\n")


def _read(file: Path) -> list[str]:
    with pyarrow.input_stream(str(file), compression="zstd") as source:
        return [json.loads(line)["Event"] for line in source.read().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    place = tmp_path / event_log.FOLDER / "eventlog_v2_local-1"
    place.mkdir(parents=True)
    (place / "appstatus_local-1.inprogress").touch()
    return place


def _names(log: Path) -> list[str]:
    return sorted(each.name for each in log.iterdir() if each.name.startswith("events_"))


def test_a_short_log_is_left_alone(tmp_path: Path, log: Path) -> None:
    for number in range(1, event_log.RETAINED + 1):
        _write(log / f"events_{number}_local-1.zstd", ["SparkListenerJobStart"])
    assert event_log.trim(tmp_path) == 0


def test_of_the_oldest_files_only_what_names_the_application_stays(tmp_path: Path, log: Path) -> None:
    start = ["SparkListenerLogStart", "SparkListenerApplicationStart", "SparkListenerEnvironmentUpdate"]
    for number in range(1, 12):
        _write(log / f"events_{number}_local-1.zstd", [*(start if number == 1 else []), "SparkListenerJobStart"] * 1)
    assert event_log.trim(tmp_path) == 11 - event_log.RETAINED
    kept = [f"events_{number}_local-1.zstd" for number in range(12 - event_log.RETAINED, 12)]
    assert _names(log) == sorted([f"events_{11 - event_log.RETAINED}_local-1.zstd.compact", *kept])
    assert _read(log / f"events_{11 - event_log.RETAINED}_local-1.zstd.compact") == start
    # It goes on: what was kept once is kept again.
    for number in range(12, 15):
        _write(log / f"events_{number}_local-1.zstd", ["SparkListenerTaskEnd"])
    assert event_log.trim(tmp_path) > 0
    [compact] = [name for name in _names(log) if name.endswith(event_log.COMPACT)]
    assert _read(log / compact) == start
    assert len(_names(log)) <= event_log.RETAINED + 1
    assert event_log.trim(tmp_path) == 0, "nothing is left to be done"
