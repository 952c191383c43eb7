"""Texts with characters PostgreSQL does not take: they come from records, logs and other people's errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.platform.storable import storable
from lakeward.registry import changes, drivers, events, incidents, observations, operations, restarts, streams

TEXT = "cannot cast 'a\x00b' nor '\ud800'"
STORED = "cannot cast 'a\\u0000b' nor '\\ud800'"
NESTED = {TEXT: [{"log": (TEXT, None, 3)}]}
STORED_NESTED = {STORED: [{"log": [STORED, None, 3]}]}


@pytest.mark.parametrize("text", ["", "plain", "naïve 😀 \n\t\x01", "\\u0000"])
def test_every_other_text_stays_as_it_is(text):
    assert storable({text: [text]}) == {text: [text]}


def test_events_take_any_text(registry):
    events.record(registry, "stream", "flights", "failed", TEXT, error=NESTED)
    events.record_all(registry, "stream", "failed", [("flights", TEXT, {"error": NESTED})] * 2)
    found = events.newest(registry, "stream", "flights")
    assert [(item.text, item.fields) for item in found] == [(STORED, {"error": STORED_NESTED})] * 3


def test_failures_and_observations_take_any_text(registry):
    restarts.record(
        registry, driver="d", stream="flights", failure_class="poison", error=TEXT, attempt=1, delay=timedelta(0)
    )
    assert restarts.newest(registry)["d", "flights"].error == STORED
    observations.record(registry, "flights", query_state="failed", error=NESTED)
    assert observations.latest(registry)["flights"].error == STORED_NESTED


def test_streams_and_drivers_take_any_text(registry):
    streams.accept(registry, "flights", generation=1, driver="d", desired="running")
    streams.block(registry, "flights", {"reason": "poison", "log": [TEXT]})
    streams.set_states(registry, {"flights": ("blocked", TEXT)})
    found = streams.get(registry, "flights")
    assert found.blocked["log"] == [STORED]
    assert found.why == STORED
    drivers.record_intent(registry, "d", token="t", previous=None, backend="local")
    drivers.exited(registry, "d", "t", exit_code=1, error=TEXT)
    assert drivers.find(registry, "d").error == STORED


def test_what_people_and_incidents_say_may_be_any_text(registry):
    changes.record(registry, "stream", "flights", "deploy", author="ann", comment=TEXT, why=TEXT)
    assert changes.newest(registry, "stream", "flights")[0].comment == STORED
    operations.request(registry, "flights", "restart", author="ann", comment=TEXT)
    assert operations.newest(registry, "flights")[0].comment == STORED
    incidents.opened(registry, "stream", "flights", TEXT, seen=NESTED)
    found = incidents.open_ones(registry)["stream", "flights"]
    assert (found.text, found.fields) == (STORED, {"seen": STORED_NESTED})
