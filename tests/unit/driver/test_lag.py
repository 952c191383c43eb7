"""Lag in records and in seconds, from what the broker says."""

from __future__ import annotations

from lakeward.driver.lag import Meter


def at(offset: int) -> str:
    return f'{{"t":{{"0":{offset}}}}}'


def test_lag_in_seconds_is_when_the_topic_ended_where_the_stream_is() -> None:
    meter = Meter()
    assert meter.measure(at(0), {"t": {0: 0}}, now=0.0) == (0, 0.0)
    assert meter.measure(at(0), {"t": {0: 50}}, now=5.0) == (50, 5.0)
    assert meter.measure(at(0), {"t": {0: 90}}, now=10.0) == (90, 10.0)
    assert meter.measure(at(50), {"t": {0: 120}}, now=15.0) == (70, 10.0)
    assert meter.measure(at(120), {"t": {0: 120}}, now=20.0) == (0, 0.0)


def test_a_topic_never_seen_that_short_has_no_lag_in_seconds() -> None:
    assert Meter().measure(at(10), {"t": {0: 1000}}, now=0.0) == (990, None)


def test_a_new_partition_counts_whole() -> None:
    assert Meter().measure(at(10), {"t": {0: 10, 1: 7}}, now=0.0) == (7, None)
