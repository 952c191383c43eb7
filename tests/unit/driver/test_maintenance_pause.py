"""Which streams rest for maintenance, and for how long at most."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.driver.maintenance_pause import MaintenancePause
from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.engine.gate import Gate

UPSERT = {"iceberg": {"table": "a.t", "mode": "upsert", "keys": ["n"]}}


def running(sink: dict[str, Any] | None = None, freshness: str = "2m") -> Any:
    document = {
        "id": "s", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}},
        "decode": {"json": "n INT"}, "transform": {"sql": "SELECT n FROM source"}, "sink": sink or UPSERT,
        "quarantine": {"table": "a.q"}, "lineage": "none", "trigger": {"every": "1s"},
        "limits": {"freshness": freshness},
    }  # fmt: skip
    return SimpleNamespace(assignment=Assignment("s", 1, document, "c"), gate=Gate())


def asked(*windows: tuple[str, str]) -> DesiredState:
    return DesiredState(datetime.now(UTC), windows=dict(windows))


def test_only_a_stream_that_changes_rows_of_that_table_rests_and_goes_on_when_the_window_is_over() -> None:
    resting, upsert = MaintenancePause(), running()
    adds, elsewhere = (
        running({"iceberg": {"table": "a.t"}}),
        running({"iceberg": {**UPSERT["iceberg"], "table": "a.u"}}),
    )
    delta = running({"delta": {"table": "a.t", "mode": "complete"}})
    four = {"upsert": upsert, "adds": adds, "elsewhere": elsewhere, "delta": delta}
    assert resting.turn(four, asked(("a.t", "x")), time.monotonic()) == {"upsert", "delta"}
    assert upsert.gate.paused
    assert not adds.gate.paused
    assert resting.turn(four, asked(), time.monotonic()) == frozenset()
    assert not upsert.gate.paused


def test_it_rests_no_longer_than_its_rows_may_be_old(monkeypatch: pytest.MonkeyPatch) -> None:
    resting, upsert, now = MaintenancePause(), running(freshness="1m"), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert resting.turn({"s": upsert}, asked(("a.t", "x")), now[0]) == {"s"}
    now[0] += 59
    assert resting.turn({"s": upsert}, asked(("a.t", "x")), now[0]) == {"s"}
    now[0] += 2
    assert resting.turn({"s": upsert}, asked(("a.t", "x")), now[0]) == frozenset()
    assert resting.turn({"s": upsert}, asked(("a.t", "y")), now[0]) == {"s"}, "another window is another budget"


def test_a_registry_that_went_away_holds_nobody() -> None:
    resting, upsert = MaintenancePause(), running()
    old = time.monotonic()
    assert resting.turn({"s": upsert}, asked(("a.t", "x")), old) == {"s"}
    assert resting.turn({"s": upsert}, asked(("a.t", "x")), old - 60) == frozenset()
    assert not upsert.gate.paused
    assert resting.turn({}, None, old) == frozenset()
