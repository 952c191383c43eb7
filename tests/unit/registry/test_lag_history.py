"""Lag over time: thinned without losing a peak, and removed when it is old."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from lakeward.registry import lag_history
from lakeward.registry.purge import purge


def _recorded(registry, minutes_ago: float, records: int | None, **more: object) -> None:
    lag_history.record(registry, "flights", lag_records=records, lag_s=None if records is None else 1.0, **more)
    registry.execute(
        text("UPDATE lag_history SET at = now() - make_interval(secs => :s) WHERE at = now()"), {"s": minutes_ago * 60}
    )


def test_the_moments_of_the_last_hours_oldest_first(registry):
    for minutes in (200, 30, 20, 10):
        _recorded(registry, minutes, int(minutes), state_rows=4, state_bytes=9)
    _recorded(registry, 5, None)
    found = lag_history.newest(registry, "flights", timedelta(hours=1))
    assert [moment.lag_records for moment in found] == [30, 20, 10, None], "what was not known is no zero"
    assert (found[0].lag_s, found[0].state_rows, found[0].state_bytes) == (1.0, 4, 9)
    assert found[-1].state_rows is None
    assert lag_history.newest(registry, "other", timedelta(hours=1)) == []


def test_a_long_span_is_thinned_and_a_peak_of_a_minute_stays(registry):
    registry.execute(
        text(
            "INSERT INTO lag_history (stream, at, lag_records) SELECT 'flights', now() - make_interval(mins => m), "
            "CASE m WHEN 777 THEN 5000000000 ELSE 1 END FROM generate_series(1, 2880) m"
        )
    )
    found = lag_history.newest(registry, "flights", timedelta(hours=48))
    assert len(found) <= lag_history.MOST + 1
    assert max(moment.lag_records or 0 for moment in found) == 5_000_000_000
    assert found == sorted(found, key=lambda moment: moment.at)


def test_what_is_older_than_its_retention_is_purged(registry):
    _recorded(registry, 5 * 24 * 60, 1)
    _recorded(registry, 1, 2)
    assert purge(registry) == {"lag_history": 1}
    assert [moment.lag_records for moment in lag_history.newest(registry, "flights", timedelta(days=10))] == [2]
