"""Late rows of the last batches, from Spark's reports."""

from __future__ import annotations

from typing import Any

from lakeward.driver.lateness import BATCHES, RecentLateness


def report(dropped: int, kept: int) -> Any:
    return {
        "stateOperators": [{"numRowsDroppedByWatermark": dropped, "numRowsUpdated": kept}],
        "eventTime": {"watermark": "2026-11-21T02:50:00.000Z"},
    }


def test_only_the_last_batches_with_rows_count() -> None:
    late = RecentLateness()
    for _ in range(BATCHES):
        late.after("s", report(2, 1))
    assert late.after("s", report(0, 0))["dropped"] == 2 * BATCHES, "a batch without rows says nothing"
    for _ in range(BATCHES):
        found = late.after("s", report(0, 5))
    assert found == {"batches": BATCHES, "dropped": 0, "kept": 5 * BATCHES, "watermark": "2026-11-21T02:50:00.000Z"}
    assert late.after("other", report(1, 0))["batches"] == 1


def test_a_report_without_event_time_has_no_watermark() -> None:
    assert RecentLateness().after("s", {"stateOperators": []})["watermark"] is None
