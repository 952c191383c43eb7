from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from lakeward.registry import heartbeats, incidents


def test_one_incident_stays_one_however_often_it_is_seen(registry):
    first = incidents.opened(registry, "dependency", "kafka", "nine streams wait", streams=9)
    again = incidents.opened(registry, "dependency", "kafka", "ten streams wait", streams=10)
    assert first == again
    [found] = incidents.open_ones(registry).values()
    assert (found.text, found.fields, found.closed_at) == ("ten streams wait", {"streams": 10}, None)


def test_a_closed_incident_does_not_come_back_and_the_next_one_is_new(registry):
    first = incidents.opened(registry, "stream", "flights", "down")
    assert incidents.closed(registry, "stream", "flights", "up again").id == first
    assert incidents.closed(registry, "stream", "flights", "up again") is None
    assert incidents.open_ones(registry) == {}
    assert incidents.opened(registry, "stream", "flights", "down") != first


def test_a_message_is_due_when_the_text_changed_and_only_then(registry):
    one = incidents.opened(registry, "stream", "flights", "down")
    assert [item.id for item in incidents.pending(registry)] == [one]
    incidents.remember_message(registry, one, {"id": "17", "text": "down"})
    assert incidents.pending(registry) == []
    incidents.closed(registry, "stream", "flights", "up again")
    assert [item.text for item in incidents.pending(registry)] == ["up again"]


def test_a_tick_says_when_it_last_succeeded(registry):
    assert heartbeats.newest(registry, "reconcile") is None
    heartbeats.record(registry, "reconcile", duration_s=0.2, streams=3)
    heartbeats.record(registry, "reconcile", duration_s=0.3, streams=4)
    found = heartbeats.newest(registry, "reconcile")
    assert (found.duration_s, found.detail) == (0.3, {"streams": 4})
    assert 0 <= found.age_s < 60


def test_two_that_notice_in_the_same_instant_open_one(other):
    both = Barrier(2)

    def notice(text: str) -> int:
        with other() as connection:
            both.wait(30)
            return incidents.opened(connection, "reconcile", "at-once", text)

    try:
        with ThreadPoolExecutor(2) as pool:
            assert len(set(pool.map(notice, ("one", "two")))) == 1
    finally:
        with other() as connection:
            incidents.closed(connection, "reconcile", "at-once", "the test is over")
