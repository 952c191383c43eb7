from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeward.registry import batches, observations, streams
from lakeward.supervision import announce, observe

HOUR = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.fixture
def world(connected, deployed):
    """The facts of the registry, with `now` moved: `world(seconds)`."""
    deployed("flights")

    def read(later_s: float = 0.0):
        with connected() as connection:
            facts = observe.read(connection)
        return replace(facts, now=facts.now + timedelta(seconds=later_s))

    return read


def told(found) -> list[tuple[str, str]]:
    return [(item.what, item.asset) for item in found]


def note(connected, **values) -> None:
    with connected() as connection:
        observations.record(connection, "flights", **values)


def test_a_stream_seen_for_the_first_time_is_only_remembered(world, connected) -> None:
    note(connected, committed_at=HOUR, complete_through=HOUR)
    found, after = announce.decide(world(), {})
    assert found == []
    assert announce.decide(world(), after)[0] == []


def test_a_changed_state_is_announced_once(world, connected) -> None:
    _, known = announce.decide(world(), {})
    with connected() as connection:
        streams.set_state(connection, "flights", "blocked", "a gap")
    found, known = announce.decide(world(), known)
    assert told(found) == [("state", "lakeward://stream/flights/state")]
    assert (found[0].extra["before"], found[0].extra["state"], found[0].extra["why"]) == ("stopped", "blocked", "a gap")
    assert announce.decide(world(), known)[0] == []


def test_commits_are_one_event_a_minute_and_none_is_forgotten(world, connected) -> None:
    _, known = announce.decide(world(), {})
    note(connected, committed_at=HOUR, seq=1, batch_id=0, snapshot_id=2**62)
    found, known = announce.decide(world(61), known)
    assert told(found) == [("commits", "lakeward://stream/flights/commits")]
    assert found[0].extra["snapshot_id"] == str(2**62)
    note(connected, committed_at=HOUR + timedelta(seconds=5), seq=2)
    found, known = announce.decide(world(70), known)
    assert found == [], "the last one was told 9 s ago"
    found, known = announce.decide(world(122), known)
    assert [item.extra["seq"] for item in found] == [2]
    assert announce.decide(world(300), known)[0] == [], "nothing new landed"


def test_a_commit_has_the_rows_since_the_one_announced_before(world, connected) -> None:
    def landed(seq: int, rows: int | None) -> None:
        with connected() as connection:
            batches.record(
                connection, stream="flights", query_id="q", batch_id=seq - 1, seq=seq, generation=1, landed=rows,
                start_offsets={}, end_offsets={}, committed_at=HOUR,
            )  # fmt: skip
        note(connected, committed_at=HOUR + timedelta(seconds=seq), seq=seq)

    def rows(later_s: float, known) -> tuple[object, object]:
        found, after = announce.decide(world(later_s), known)
        with connected() as connection:
            (event,) = announce.with_rows(connection, found)
        return event.extra["rows"], after

    landed(1, 5)
    _, known = announce.decide(world(), {})
    landed(2, 10)
    landed(3, 20)
    number, known = rows(61, known)
    assert number == 30
    landed(4, None)
    number, known = rows(130, known)
    assert number is None, "a batch that was not counted is no zero"
    note(connected, committed_at=HOUR + timedelta(seconds=9), seq=6)
    number, known = rows(200, known)
    assert number is None, "a batch that is not recorded is no zero"
    landed(7, 0)
    assert rows(270, known)[0] == 0


def test_an_hour_is_announced_when_it_closes_with_what_was_skipped(world, connected) -> None:
    note(connected, complete_through=HOUR + timedelta(minutes=59))
    _, known = announce.decide(world(), {})
    note(connected, complete_through=HOUR + timedelta(minutes=59, seconds=59))
    found, known = announce.decide(world(), known)
    assert found == []
    note(connected, complete_through=HOUR + timedelta(hours=3, seconds=1))
    found, known = announce.decide(world(), known)
    assert told(found) == [("hour", "lakeward://stream/flights/hour")]
    assert found[0].extra == {"from": HOUR.isoformat(), "to": (HOUR + timedelta(hours=3)).isoformat()}
    note(connected, complete_through=HOUR + timedelta(hours=23))
    assert [item.what for item in announce.decide(world(), known)[0]] == ["hour", "day"]


def test_a_final_time_that_goes_back_announces_nothing_twice(world, connected) -> None:
    note(connected, complete_through=HOUR + timedelta(hours=2))
    _, known = announce.decide(world(), {})
    note(connected, complete_through=HOUR)
    found, known = announce.decide(world(), known)
    assert found == []
    note(connected, complete_through=HOUR + timedelta(hours=2))
    assert announce.decide(world(), known)[0] == []


def test_what_was_announced_is_kept_in_the_registry(world, connected) -> None:
    _, after = announce.decide(world(), {})
    with connected() as connection:
        announce.remember(connection, after)
    with connected() as connection:
        assert announce.read(connection) == after
