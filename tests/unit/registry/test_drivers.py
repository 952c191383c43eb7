from __future__ import annotations

from lakeward.registry import drivers, leases


def test_the_first_intent_wins(registry):
    assert drivers.record_intent(registry, "demo", token="one", previous=None, backend="local")
    assert not drivers.record_intent(registry, "demo", token="two", previous=None, backend="local")
    assert drivers.find(registry, "demo").token == "one"


def test_an_intent_needs_the_token_it_replaces(registry):
    drivers.record_intent(registry, "demo", token="one", previous=None, backend="local")
    assert drivers.record_intent(registry, "demo", token="two", previous="one", backend="local")
    assert not drivers.record_intent(registry, "demo", token="three", previous="one", backend="local")


def test_a_new_intent_forgets_the_former_launch(registry):
    drivers.record_intent(registry, "demo", token="one", previous=None, backend="local")
    drivers.started(registry, "demo", "one", handle={"pid": 1}, host="h", log="/l")
    drivers.exited(registry, "demo", "one", exit_code=1, error="boom")
    drivers.record_intent(registry, "demo", token="two", previous="one", backend="local")
    found = drivers.find(registry, "demo")
    assert (found.handle, found.exit_code, found.error, found.heartbeat) == (None, None, None, None)


def test_a_launch_is_of_the_process_that_claimed_it_first(registry):
    drivers.record_intent(registry, "demo", token="one", previous=None, backend="local")
    assert drivers.claim(registry, "demo", "one", "this process", "here")
    assert drivers.claim(registry, "demo", "one", "this process", "here"), (
        "it may ask again while it waits for its lease"
    )
    assert not drivers.claim(registry, "demo", "one", "the same, started twice", "here")
    drivers.record_intent(registry, "demo", token="two", previous="one", backend="local")
    assert not drivers.claim(registry, "demo", "one", "this process", "here")
    assert drivers.claim(registry, "demo", "two", "the same, started twice", "here")
    assert leases.current(registry, drivers.PROCESS).keys() == {"two"}, "a launch that is over leaves nothing behind"


def test_an_old_launch_neither_beats_nor_reports(registry):
    drivers.record_intent(registry, "demo", token="one", previous=None, backend="local")
    drivers.record_intent(registry, "demo", token="two", previous="one", backend="local")
    assert not drivers.beat(registry, "demo", "one", state="running")
    drivers.exited(registry, "demo", "one", exit_code=75, error="fenced")
    assert drivers.beat(registry, "demo", "two", state="running")
    found = drivers.find(registry, "demo")
    assert found.state == "running"
    assert found.age_s == 0
