from __future__ import annotations

from contextlib import contextmanager

from sqlalchemy import text

from lakeward.platform.errors import DependencyDown
from lakeward.registry import heartbeats, incidents
from lakeward.supervision.alarm import REPEAT_S, Alarm
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.startup_grace import StartupGracePeriod


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_speaks_when_a_pass_would_do_something_and_repeats_only_what_still_holds(
    connected, runtime, backend, deployed, monkeypatch
) -> None:
    monkeypatch.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: None)
    clock = Clock()
    alarm = Alarm(connected, runtime, backend, clock)
    assert alarm.poll() == []
    deployed("flights")
    assert [text for text in alarm.poll() if text.startswith("nyc: ")] == ["nyc: it is desired and does not run"]
    assert alarm.poll() == []
    clock.now += REPEAT_S
    assert alarm.poll() != []
    reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)
    assert [text for text in alarm.poll() if text.startswith("nyc: ")] == []


def test_a_death_and_a_recovery_are_both_news(connected, runtime, backend, deployed, sigkill, eventually) -> None:
    deployed("flights")

    def once():
        return reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)

    once()
    alarm = Alarm(connected, runtime, backend)
    eventually(lambda: any("starting → healthy" in text for text in alarm.poll()))
    once()
    (job,) = [item for item in backend.find() if item.handle]
    sigkill(job.handle["pid"])
    eventually(lambda: any("its process is gone" in text for text in alarm.poll()))


def test_passes_that_stay_away_are_news_and_an_incident(connected, runtime, backend) -> None:
    with connected() as connection:
        heartbeats.record(connection, "reconcile", duration_s=0.1)
    assert Alarm(connected, runtime, backend).poll() == []
    with connected() as connection:
        connection.execute(text("UPDATE ticks SET at = now() - interval '4 minutes'"))
    (missed,) = Alarm(connected, runtime, backend).poll()
    assert missed.startswith("no reconcile pass has succeeded for 4 min")
    with connected() as connection:
        assert list(incidents.open_ones(connection)) == [("reconcile", "streams")]


def test_an_unreachable_registry_is_silence_and_is_remembered(runtime, backend) -> None:
    @contextmanager
    def away():
        raise DependencyDown("The registry cannot be reached")
        yield

    runtime.drivers.mkdir(parents=True)
    assert Alarm(away, runtime, backend).poll() == []
    assert StartupGracePeriod(runtime.drivers).answered(server_up_s=9999) is not None
