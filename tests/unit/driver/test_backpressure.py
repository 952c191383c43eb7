"""Which streams commit less often because their table's maintenance is behind."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.driver.backpressure import Backpressure
from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.registry.backpressure import Level, TableBackpressure


class Paced:
    """Notes how a gate is spaced."""

    def __init__(self) -> None:
        self.spaced: list[float] = []

    def space(self, seconds: float, valid_s: float = 0.0) -> None:
        self.spaced.append(seconds)


def running(sink: dict[str, Any], trigger: str = "10s", freshness: str = "2m") -> Any:
    document = {
        "id": "s", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}},
        "decode": {"json": "n INT"}, "transform": {"sql": "SELECT n FROM source"}, "sink": sink,
        "quarantine": {"table": "a.q"}, "lineage": "none", "trigger": {"every": trigger},
        "limits": {"freshness": freshness},
    }  # fmt: skip
    return SimpleNamespace(assignment=Assignment("s", 1, document, "c"), gate=Paced())


def pressed(level: Level, table: str = "a.t") -> DesiredState:
    return DesiredState(datetime.now(UTC), pressures={table: TableBackpressure(level, "1000 commits")})


def test_every_stream_of_the_table_is_slowed_down_and_no_other() -> None:
    slowing = Backpressure()
    appends, upserts = running({"iceberg": {"table": "a.t"}}), running({"delta": {"table": "a.t", "mode": "complete"}})
    elsewhere, sends = running({"iceberg": {"table": "a.u"}}), running({"kafka": {"topic": "t"}})
    streams = {"appends": appends, "upserts": upserts, "elsewhere": elsewhere, "sends": sends}
    slowing.turn(streams, pressed(Level.LENGTHEN), time.monotonic())
    assert (appends.gate.spaced, upserts.gate.spaced) == ([20], [20])
    slowing.turn(streams, pressed(Level.HOLD), time.monotonic())
    assert appends.gate.spaced == [20, math.inf]
    slowing.turn(streams, pressed(Level.RELEASED), time.monotonic())
    assert appends.gate.spaced == [20, math.inf, 0], "and goes on when the rewrite has landed"
    assert elsewhere.gate.spaced == sends.gate.spaced == []


@pytest.mark.parametrize(("trigger", "freshness", "distance"), [("10s", "2m", 20), ("90s", "2m", 120)])
def test_batches_are_no_further_apart_than_their_rows_may_be_old(trigger: str, freshness: str, distance: float) -> None:
    stream = running({"iceberg": {"table": "a.t"}}, trigger, freshness)
    Backpressure().turn({"s": stream}, pressed(Level.LENGTHEN), time.monotonic())
    assert stream.gate.spaced == [distance]


def test_a_registry_that_went_away_slows_nobody_down() -> None:
    slowing, stream = Backpressure(), running({"iceberg": {"table": "a.t"}})
    slowing.turn({"s": stream}, pressed(Level.HOLD), time.monotonic())
    slowing.turn({"s": stream}, pressed(Level.HOLD), time.monotonic() - 60)
    slowing.turn({"s": stream}, None, 0)
    assert stream.gate.spaced == [math.inf, 0]
