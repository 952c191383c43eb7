from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from lakeward.registry import drivers, heartbeats, leases
from lakeward.registry.heartbeats import Heartbeat
from lakeward.supervision import pass_progress
from lakeward.supervision.act import Actor
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.decide.reconcile import Adopt, FinalizeLaunch, Kill, Launch, Nothing, Plan, Unstick
from lakeward.supervision.pass_progress import Progress
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.relaunch import Relaunch, launches, needed
from lakeward.supervision.startup_grace import StartupGracePeriod


class Killed(BaseException):
    """The process of a pass is killed here."""


def tick(age_s: float) -> Heartbeat:
    return Heartbeat("reconcile", datetime(2026, 3, 1, tzinfo=UTC), 0.4, {}, age_s)


@pytest.mark.parametrize(
    ("newest", "progress", "runs"),
    [
        (tick(10.0), Progress(), False),
        (tick(200.0), Progress(3, age_s=20.0), True),
        (None, Progress(3, age_s=20.0), True),  # no pass ever came to its end
        (tick(200.0), Progress(2, age_s=20.0), False),
        (tick(100.0), Progress(3, age_s=20.0), False),  # one succeeded lately
        (tick(310.0), Progress(1, age_s=20.0), True),  # one pass, so slow that it does not end
        (tick(9999.0), Progress(7, age_s=700.0), False),  # none begins any more: the Dag is paused
        (tick(9999.0), Progress(), False),
    ],
)
def test_it_runs_when_passes_begin_and_do_not_finish(newest, progress, runs) -> None:
    assert (needed(newest, progress) is not None) is runs


def test_it_brings_back_what_is_dead_and_touches_nothing_alive() -> None:
    def job(life: Life) -> Job:
        return Job("nyc", "t", life, None, "h", "")

    kept = [
        FinalizeLaunch("a", "gone", "t", None, True),
        Launch("b", "desired", None, ("s",)),
        Kill("c", "a child process of a dead driver", job(Life.REMNANT)),
    ]
    others = [
        Kill("d", "an older launch", job(Life.ALIVE)),
        Unstick("e", "hung", job(Life.ALIVE)),
        Adopt("f", "not recorded", job(Life.ALIVE)),
        Nothing("g", "it runs"),
    ]
    assert launches(Plan((*others, *kept))) == kept


@pytest.fixture
def small(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: None)
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    return Relaunch(connected, runtime, backend, chance=lambda: 0.0)


@pytest.fixture
def cut_short(connected, runtime, backend, monkeypatch):
    """Begin passes that are killed before they act."""

    def run(times: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("lakeward.supervision.reconcile._pass", lambda *_, **__: (_ for _ in ()).throw(Killed))
            for _ in range(times):
                with pytest.raises(Killed):
                    reconcile_once(connected, runtime, backend, holder="test")

    return run


def alive(backend) -> list[str]:
    return [job.token for job in backend.find() if job.life is Life.ALIVE]


def test_after_three_passes_that_did_not_finish_the_dead_are_launched_once(
    connected, runtime, backend, deployed, small, cut_short, sigkill, eventually
) -> None:
    deployed("flights")
    reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)
    (first,) = alive(backend)
    with connected() as connection:
        row = drivers.find(connection, "nyc")
        connection.execute(text("UPDATE ticks SET at = now() - interval '200 seconds' WHERE name = 'reconcile'"))
    sigkill(row.handle["pid"])
    eventually(lambda: not alive(backend))
    cut_short(2)
    assert small.poll() == ()
    cut_short(1)
    assert [item.act for item in small.poll()] == ["finalized", "launched"]
    (second,) = alive(backend)
    assert second != first
    assert small.poll() == (), "not more often than needed"
    with connected() as connection:
        assert heartbeats.newest(connection, "reconcile").age_s > 190, "that is no whole pass"
    summary = reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0.0)
    assert summary.done == ()
    with connected() as connection:
        assert pass_progress.read(connection).unfinished == 0


def test_it_does_nothing_beside_a_pass(connected, backend, deployed, small) -> None:
    deployed("flights")
    with connected() as connection:
        leases.take(connection, "reconcile", "streams", "of-a-pass", "Airflow", timedelta(minutes=1))
    assert small.once() == ()
    assert alive(backend) == []


def test_a_driver_that_cannot_be_launched_stops_no_other(backend, deployed, small, monkeypatch) -> None:
    deployed("a", driver="a")
    deployed("z", driver="z")
    launch = Actor._launch

    def fail(self, decision, facts):
        if decision.driver == "a":
            raise RuntimeError("cannot be launched")
        return launch(self, decision, facts)

    monkeypatch.setattr(Actor, "_launch", fail)
    assert sorted((item.driver, item.act) for item in small.once()) == [("a", "failed"), ("z", "launched")]
    assert len(alive(backend)) == 1


def test_a_pass_that_overtakes_it_launches_nothing_twice(
    connected, runtime, backend, deployed, small, monkeypatch
) -> None:
    """It is so slow that its lease expires, and a whole pass runs between its decision and its act."""
    deployed("flights")
    act = Actor.do
    overtaken = []

    def slow(self, decision, facts):
        if not overtaken:
            overtaken.append(decision)
            with connected() as connection:
                leases.forget(connection, "reconcile", "streams")
            reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0.0)
        return act(self, decision, facts)

    monkeypatch.setattr(Actor, "do", slow)
    assert [item.act for item in small.once()] == ["skipped"]
    assert len(alive(backend)) == 1


def test_a_frozen_driver_is_left_to_a_whole_pass(connected, runtime, backend, deployed, small) -> None:
    deployed("flights")
    reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0.0)
    with connected() as connection:
        pid = drivers.find(connection, "nyc").handle["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert small.once() == ()
    os.kill(pid, signal.SIGCONT)
