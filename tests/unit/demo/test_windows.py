from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.demo.windows import Event, recompute

HOUR = 3_600_000
RULE = {"width_ms": HOUR, "delay_ms": 2 * HOUR}


def at(hour: float, group: str = "JFK", value: float | None = 1.0) -> Event:
    return Event(round(hour * HOUR), group, value)


def test_a_window_is_written_by_the_batch_after_the_one_that_moved_the_watermark() -> None:
    moved = [[at(1), at(1.5)], [at(4)]]
    assert recompute(moved, **RULE).windows == {}
    closed = recompute([*moved, []], **RULE)
    assert {key: each.rows for key, each in closed.windows.items()} == {(HOUR, "JFK"): 2}
    assert closed.open_windows == 1


def test_late_is_judged_by_the_watermark_of_the_batch_before() -> None:
    batches = [[at(1)], [at(10)], [at(1.2)], [at(1.3)]]
    result = recompute(batches, **RULE)
    # Batch 2 still runs under batch 1's watermark (0): its row counts. Batch 3 runs under batch 2's (8 h): late.
    assert result.windows[HOUR, "JFK"].rows == 2
    assert result.late_dropped == 1


def test_an_empty_batch_between_makes_the_same_row_late() -> None:
    result = recompute([[at(1)], [at(10)], [], [at(1.2)]], **RULE)
    assert result.windows[HOUR, "JFK"].rows == 1
    assert result.late_dropped == 1


def test_a_window_that_ends_at_the_watermark_is_closed() -> None:
    result = recompute([[at(1), at(4)], [], [at(1.9)]], **RULE)
    assert (HOUR, "JFK") in result.windows
    assert result.late_dropped == 1


def test_nulls_count_as_rows_and_not_as_values() -> None:
    only = recompute([[at(1, value=None), at(1, value=3.0), at(9)], []], **RULE).windows[HOUR, "JFK"]
    assert only.figures == (2, 1, 0, 3.0, 3.0)


events = st.builds(Event, st.integers(0, 40 * HOUR), st.sampled_from("AB"), st.none() | st.floats(-10, 10))


@given(st.lists(st.lists(events, max_size=8), max_size=8))
def test_every_row_is_written_open_or_late(batches: list[list[Event]]) -> None:
    result = recompute([*batches, []], **RULE)
    written = sum(each.rows for each in result.windows.values())
    total = sum(map(len, batches))
    assert written + result.late_dropped <= total
    assert all(start + HOUR <= result.watermark_ms for start, _ in result.windows)
    if result.open_windows == 0:
        assert written + result.late_dropped == total
