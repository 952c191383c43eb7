"""When a check run is asked for because a stream has landed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from lakeward.registry import generations, observations, streams
from lakeward.supervision import check_requests, observe
from lakeward.supervision.check_requests import ObservedHead

AT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
MINUTE = timedelta(seconds=60)


@pytest.fixture
def deployed(connected):
    """Streams that land in one table each: `deployed(flights="nyc.flights")`."""

    def deploy(**tables: str) -> None:
        with connected() as connection:
            for name, table in tables.items():
                streams.accept(connection, name, generation=1, driver="nyc", desired="running")
                generations.add(
                    connection, stream=name, generation=1, digest=name, sql=None, code={}, versions={}, author="t",
                    spec={"id": name, "sink": {"iceberg": {"table": table}}}, checkpoint=f"/c/{name}",
                )  # fmt: skip

    return deploy


def landing(connected, stream: str, snapshot: int, at: datetime = AT) -> None:
    with connected() as connection:
        observations.record(connection, stream, committed_at=at, snapshot_id=snapshot)


def asked(connected, suites={"nyc.flights"}, seen={}, known={}) -> dict[str, int]:  # noqa: B006 - never changed
    with connected() as connection:
        return check_requests.decide(observe.read(connection, whole=False), suites, seen, known)


def test_the_newest_batch_of_all_streams_of_a_table_counts(connected, deployed) -> None:
    deployed(flights="nyc.flights", more="nyc.flights", other="nyc.other")
    assert asked(connected) == {}
    landing(connected, "more", 7, AT + timedelta(seconds=1))
    landing(connected, "flights", 9)
    landing(connected, "other", 8)
    assert asked(connected) == {"nyc.flights": 7}


@pytest.mark.parametrize(
    ("seen", "known", "wanted"),
    [
        (ObservedHead(AT, 9), {}, False),
        (ObservedHead(AT - MINUTE, 5), {}, True),
        (ObservedHead(AT + MINUTE, 11), {}, False),  # a compaction's snapshot, looked at after the batch
        (ObservedHead(AT + timedelta(seconds=5), 11), {}, True),  # clocks may differ by as much: one run more
        (ObservedHead(AT + timedelta(seconds=5), 11), {"nyc.flights": 9}, False),
        (None, {"nyc.flights": 8}, True),
        (ObservedHead(AT - MINUTE, None), {}, True),
    ],
)
def test_a_batch_is_asked_for_until_a_run_has_looked_at_it_and_once(connected, deployed, seen, known, wanted) -> None:
    deployed(flights="nyc.flights")
    landing(connected, "flights", 9)
    found = asked(connected, seen={"nyc.flights": seen} if seen else {}, known=known)
    assert found == ({"nyc.flights": 9} if wanted else {})


def test_nothing_is_asked_for_before_the_interval_is_over(connected, deployed) -> None:
    deployed(flights="nyc.flights")
    landing(connected, "flights", 9)
    with connected() as connection:
        found = check_requests.unseen(connection, {"nyc.flights"}, MINUTE)
        assert found == {"nyc.flights": 9}
        check_requests.remember(connection, found)
    landing(connected, "flights", 10, AT + timedelta(seconds=9))
    with connected() as connection:
        assert check_requests.unseen(connection, {"nyc.flights"}, MINUTE) == {}
        connection.execute(text("UPDATE ticks SET at = at - interval '51 seconds'"))
        assert check_requests.unseen(connection, {"nyc.flights"}, MINUTE) == {"nyc.flights": 10}
        assert check_requests.unseen(connection, set(), MINUTE) == {}


def test_a_stream_that_lands_elsewhere_or_without_a_snapshot_asks_for_nothing(connected, deployed) -> None:
    deployed(flights="nyc.flights")
    landing(connected, "flights", 9)
    with connected() as connection:
        facts = observe.read(connection, whole=False)
    no_snapshot = {"flights": replace(facts.observations["flights"], snapshot_id=None)}
    assert check_requests.decide(replace(facts, observations=no_snapshot), {"nyc.flights"}, {}, {}) == {}
    assert check_requests.decide(facts, {"nyc.other"}, {}, {}) == {}
