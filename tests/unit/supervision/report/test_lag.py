from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.supervision.report.lag import Lag, Partition, of_watch, together

NOW = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)
WATCH = {
    "at": (NOW - timedelta(seconds=30)).isoformat(),
    "partitions": [
        {"source": "s", "topic": "t", "partition": 0, "position": 5, "end": 9, "lag_records": 4},
        {"source": "s", "topic": "t", "partition": 1, "position": None, "end": 2, "lag_records": 2},
    ],
    "oldest": (NOW - timedelta(seconds=90)).isoformat(),
    "retention_s": 3600.0,
    "arriving_per_second": 2.0,
    "lag_per_second": 1.5,
}


def test_what_a_driver_measured_grows_old_with_it() -> None:
    found = of_watch(WATCH, NOW)
    assert found is not None
    assert (found.records, found.oldest_s, found.age_s, found.retention_s, found.per_second) == (6, 90, 30, 3600, 1.5)
    later = of_watch(WATCH, NOW + timedelta(minutes=10))
    assert later is not None
    assert (later.oldest_s, later.age_s) == (690, 630)


@pytest.mark.parametrize("change", [{"partitions": [{"topic": "t"}]}, {"at": 5}, {"partitions": None}, {"at": None}])
def test_a_form_of_another_version_is_nothing_known(change) -> None:
    assert of_watch(WATCH | change, NOW) is None


def test_what_the_source_gave_up_does_not_wait_any_more() -> None:
    part = Partition("s", "t", 0, 10, 100, 40)
    assert (part.lag, part.expired) == (60, 30)
    assert Partition("s", "t", 0, None, 100, 40).expired == 0, "nothing of it was ever landed: it begins where it is"


PART = WATCH | {"unmeasured": {"far": "Kafka does not answer: brokers far:1"}}


def test_a_part_of_the_lag_is_never_the_lag() -> None:
    found = of_watch(PART, NOW)
    assert found is not None
    assert (found.records, found.waited_s, found.at_least, len(found.partitions)) == (None, None, 6, 2)
    assert found.unknown == "source far: Kafka does not answer: brokers far:1"
    none = of_watch(PART | {"partitions": []}, NOW)
    assert none is not None
    assert (none.records, none.at_least, none.unknown) == (None, 0, found.unknown)


def test_sources_together() -> None:
    one = Lag((Partition("a", "t", 0, 0, 3),), 5.0, 1.0, 60.0)
    two = Lag((Partition("b", "u", 0, 0, 4),), 9.0, 2.0, None)
    both = together([one, two])
    assert both is not None
    assert (both.records, both.oldest_s, both.arriving_per_second, both.retention_s) == (7, 9.0, 3.0, 60.0)
    part = together([one, two], {"c": "it is silent"})
    assert part is not None
    assert (part.records, part.at_least, part.unknown) == (None, 7, "source c: it is silent")
    assert together([part, one]) == together([one, two, one], {"c": "it is silent"})
    assert together([], {"c": "it is silent"}) is None
