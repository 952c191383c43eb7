from __future__ import annotations

from datetime import UTC, datetime

from lakeward.registry.heartbeats import Heartbeat
from lakeward.supervision.dead_mans_switch import judge


def tick(age_s: float) -> Heartbeat:
    return Heartbeat("reconcile", datetime(2026, 3, 1, tzinfo=UTC), 0.4, {}, age_s)


def test_three_passes_may_stay_away_and_no_more() -> None:
    assert judge(tick(180.0)) is None
    assert "no reconcile pass has succeeded for 3 min" in (judge(tick(181.0)) or "")
    assert judge(tick(100.0), every_s=30.0) is not None


def test_where_no_pass_ever_ran_nothing_is_missing() -> None:
    assert judge(None) is None
