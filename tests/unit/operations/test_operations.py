"""Operations on small real drivers with nobody else reconciling, as the command line works with Airflow down."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
from psutil import pid_exists
from sqlalchemy import text

from lakeward.operations import waiting
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, Refused, SpecError, TimedOut
from lakeward.registry import changes, drivers, events, leases, operations, restarts, streams
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import State
from lakeward.supervision.startup_grace import StartupGracePeriod


@pytest.fixture
def operator(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(
        StartupGracePeriod, "answered", lambda self, server_up_s: None
    )  # the test's server has only just started
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(waiting, "RECONCILE_EVERY_S", 0.5)

    def make(timeout_s: float = 60.0) -> Runner:
        return Runner(connected, runtime, author="ada", holder="test", backend=backend, timeout_s=timeout_s)

    return make


def newest(connected, stream="flights"):
    with connected() as connection:
        item = operations.newest(connection, stream)[0]
    return item.operation, item.result


def test_start_waits_until_it_lands(operator, deployed, connected) -> None:
    deployed("flights", desired="stopped")
    outcome = operator().run(Request(StreamOperation.START, "flights", comment="first day"))
    assert outcome.result == "done"
    assert outcome.detail.startswith("started in ")
    assert newest(connected) == ("start", "done")
    with connected() as connection:
        change = changes.newest(connection, "stream", "flights")[0]
        assert (change.change, change.author, change.comment) == ("start", "ada", "first day")
        assert events.newest(connection, "stream", "flights")


def test_stop_waits_until_the_query_has_ended_and_the_driver_too(
    operator, deployed, connected, backend, eventually
) -> None:
    deployed("flights", "alerts", desired="stopped")
    operator().run(Request(StreamOperation.START, "flights"))
    operator().run(Request(StreamOperation.START, "alerts"))
    operator().run(Request(StreamOperation.STOP, "flights"))
    assert [job.life for job in backend.find()].count(Life.ALIVE) == 1  # alerts still runs in it
    operator().run(Request(StreamOperation.STOP, "alerts"))
    eventually(lambda: Life.ALIVE not in [job.life for job in backend.find()])
    assert newest(connected, "alerts") == ("stop", "done")


def test_restart_is_a_new_launch_of_a_lone_stream(operator, deployed, connected) -> None:
    deployed("flights", desired="stopped")
    operator().run(Request(StreamOperation.START, "flights"))
    with connected() as connection:
        before = drivers.find(connection, "nyc")
    outcome = operator().run(Request(StreamOperation.RESTART, "flights"))
    with connected() as connection:
        after = drivers.find(connection, "nyc")
    assert outcome.detail.startswith("started again")
    assert after.token != before.token


def test_asking_without_waiting_returns_at_once(operator, deployed, connected) -> None:
    deployed("flights", desired="stopped")
    outcome = operator().run(Request(StreamOperation.START, "flights", wait=False))
    assert "asked to run" in outcome.detail
    with connected() as connection:
        assert streams.get(connection, "flights").desired == "running"
        assert drivers.find(connection, "nyc") is not None


def test_a_start_after_an_outage_says_that_nothing_is_launched_yet(
    operator, deployed, connected, monkeypatch
) -> None:  # fmt: skip
    deployed("flights", desired="stopped")
    why = "the registry was down until now: nothing is launched for 12 s, drivers renew first"
    with monkeypatch.context() as patched:
        patched.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: why)
        detail = operator().run(Request(StreamOperation.START, "flights", wait=False)).detail
    assert detail == f"asked to run, but {why}; the next reconcile pass, or another start, launches its driver"
    with connected() as connection:
        assert drivers.find(connection, "nyc") is None
    assert "but" not in operator().run(Request(StreamOperation.START, "flights", wait=False)).detail
    with connected() as connection:
        assert drivers.find(connection, "nyc") is not None


def test_a_start_that_does_not_land_times_out_and_goes_on(operator, deployed, connected, runtime) -> None:
    deployed("flights", desired="stopped")
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("quiet")
    with pytest.raises(TimedOut, match="was not started"):
        operator(timeout_s=2.0).run(Request(StreamOperation.START, "flights"))
    assert newest(connected) == ("start", "timed_out")
    with connected() as connection:
        assert streams.get(connection, "flights").desired == "running"


def test_a_start_in_a_driver_that_runs_waits_for_this_start_and_not_for_an_old_batch(
    operator, deployed, connected
) -> None:
    deployed("flights", "alerts", desired="stopped")
    operator().run(Request(StreamOperation.START, "flights"))
    operator().run(Request(StreamOperation.START, "alerts"))
    operator().run(Request(StreamOperation.STOP, "flights"))
    with connected() as connection:
        driver = drivers.find(connection, "nyc").handle["pid"]
    os.kill(driver, signal.SIGSTOP)
    try:
        with pytest.raises(TimedOut, match="was not started") as waited:
            operator(timeout_s=1.0).run(Request(StreamOperation.START, "flights"))
    finally:
        os.kill(driver, signal.SIGCONT)
    assert "the stream is starting: its start was requested" in waited.value.why
    assert operator().run(Request(StreamOperation.START, "flights")).result == "done"


def test_a_start_of_a_stream_that_runs_and_a_stop_of_one_that_is_stopped_change_nothing(operator, deployed) -> None:
    deployed("flights", desired="stopped")
    start, stop = Request(StreamOperation.START, "flights"), Request(StreamOperation.STOP, "flights")
    assert operator().run(start).result == "done"
    operator().reconcile()
    again = operator().run(start)
    assert (again.result, again.detail.split(":")[0]) == ("skipped", "it runs already")
    assert operator().run(stop).result == "done"
    again = operator().run(stop)
    assert (again.result, again.detail.split(":")[0]) == ("skipped", "it is stopped already")


def test_a_stream_that_waits_for_a_person_is_refused_with_her_next_step(operator, deployed, connected, runtime) -> None:
    deployed("flights", desired="stopped")
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("config")
    with pytest.raises(Refused, match="is blocked") as refused:
        operator().run(Request(StreamOperation.START, "flights"))
    assert "lakeward streams logs flights" in refused.value.next
    assert newest(connected) == ("start", "refused")


def test_an_unknown_stream_is_named_with_the_known_ones(operator, deployed) -> None:
    deployed("flights")
    with pytest.raises(SpecError, match="There is no stream 'fligths'") as wrong:
        operator().run(Request(StreamOperation.START, "fligths"))
    assert "flights" in wrong.value.why


def test_killing_is_refused_while_the_driver_runs_other_streams(operator, deployed, connected, runtime) -> None:
    deployed("flights", "alerts")
    operator().run(Request(StreamOperation.START, "flights"))
    runtime_mode = runtime.drivers / "mode"
    runtime_mode.write_text("quiet")
    with pytest.raises(Refused, match="Cannot kill the driver") as refused:
        operator().kill("flights")
    assert "alerts" in refused.value.why


def test_a_restart_that_died_half_way_is_finished_by_the_next_pass(operator, deployed, connected, monkeypatch) -> None:
    from lakeward.supervision.reconcile import reconcile_once

    deployed("flights", desired="stopped")
    with connected() as connection:
        operations.request(connection, "flights", "restart", author="ada", resume=True)
        connection.execute(text("UPDATE operations SET requested_at = now() - interval '1 hour'"))
    one = operator()
    reconcile_once(connected, one.runtime, one.backend, holder="test")
    with connected() as connection:
        assert streams.get(connection, "flights").desired == "running"
        assert operations.newest(connection, "flights")[0].result == "failed"


@pytest.fixture
def running(operator, deployed, connected):
    """The newest launch of a lone stream that has landed."""
    deployed("flights", desired="stopped")
    operator().run(Request(StreamOperation.START, "flights"))
    with connected() as connection:
        return drivers.find(connection, "nyc")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _no_answer(*_: object) -> None:
    raise DependencyDown("the registry does not answer", why="gone for a moment", next="again")


@pytest.mark.parametrize(("broken", "raised"), [(_interrupt, KeyboardInterrupt), (_no_answer, DependencyDown)])
def test_a_stream_that_is_drained_runs_again_when_the_wait_is_broken_off(
    operator, running, connected, monkeypatch, broken, raised
) -> None:
    one = operator()
    with connected() as connection:
        ticket = operations.begin(connection, "flights", "reset", author="ada", holder="test", token="t")
    monkeypatch.setattr(Runner, "observe", broken)
    with pytest.raises(raised):
        Waiting(one, ticket).drain()
    with connected() as connection:
        assert streams.get(connection, "flights").desired == "running"


def failures(connected):
    with connected() as connection:
        return restarts.newest(connection)


def test_what_a_person_killed_is_no_failure_when_it_is_started_again(operator, running, connected, backend) -> None:
    os.kill(running.handle["pid"], signal.SIGSTOP)
    with connected() as connection:  # another pass is under way and has not seen the end yet
        leases.take(connection, "reconcile", "streams", "t", "scheduler-2", timedelta(minutes=5))
    operator(timeout_s=1.0).run(Request(StreamOperation.STOP, "flights", kill=True))
    with connected() as connection:
        leases.release(connection, "reconcile", ["streams"], "t")
    operator().run(Request(StreamOperation.START, "flights"))
    assert failures(connected) == {}
    with connected() as connection:
        told = [(each.kind, each.text) for each in events.newest(connection, "driver", "nyc")]
    assert ("killed", f"ada ended process {running.handle['pid']} of driver nyc") in told
    assert "failed" not in [kind for kind, _ in told]


@pytest.fixture
def rename(backend, monkeypatch):
    """Gives this machine another name: what it started before cannot be asked any more."""
    yield lambda: monkeypatch.setattr(identity, "host", lambda: "renamed")
    for job in backend.find():
        if job.life is Life.ALIVE:
            backend.kill(job)
    # Under its own name again this machine would wait for launches that nobody can ask any more.
    shutil.rmtree(backend.drivers)


def test_a_host_that_is_gone_for_good_is_given_up_by_a_person_once_its_lease_has_lapsed(
    operator, running, connected, backend, rename, sigkill, eventually
) -> None:
    rename()
    sigkill(running.handle["pid"])
    eventually(lambda: [job.life for job in backend.find()] == [Life.UNKNOWN] and not pid_exists(running.handle["pid"]))
    with connected() as connection:
        leases.take(connection, "driver", "nyc", running.token, "elsewhere", timedelta(minutes=5))
    with pytest.raises(Refused, match=r"Cannot kill the driver of stream .* from this host") as refused:
        operator(timeout_s=1.0).run(Request(StreamOperation.RESTART, "flights", kill=True))
    assert "its lease is live" in refused.value.why
    with connected() as connection:
        connection.execute(text("UPDATE leases SET until = now() - interval '1 minute' WHERE scope <> 'process'"))
    seen = operator().observe("flights")
    assert seen.verdict.state is State.UNKNOWN
    assert "lakeward streams restart flights --kill" in seen.verdict.why

    def never(_: float) -> None:
        raise AssertionError("there is nothing to wait for")

    stop = Request(StreamOperation.STOP, "flights", kill=True)
    assert "by giving up its driver on host" in replace(operator(), sleep=never).run(stop).detail
    assert operator().run(Request(StreamOperation.START, "flights")).result == "done"
    assert failures(connected) == {}
    with connected() as connection:
        assert drivers.find(connection, "nyc").token != running.token


def test_a_driver_that_ended_under_another_host_name_keeps_nobody_from_starting_it(
    operator, running, backend, rename
) -> None:
    rename()
    operator().run(Request(StreamOperation.STOP, "flights"))
    assert [job.life for job in backend.find()] == [Life.UNKNOWN]
    assert operator().run(Request(StreamOperation.START, "flights")).result == "done"


def test_a_start_beside_a_generation_that_waits_says_what_it_runs_and_names_the_upgrade(
    operator, deployed, connected
) -> None:
    deployed("flights", desired="stopped")
    assert "waits" not in operator().dry_run(Request(StreamOperation.START, "flights")).detail
    with connected() as connection:
        connection.execute(text("UPDATE streams SET pending_generation = 2 WHERE id = 'flights'"))
        streams.block(connection, "flights", {"reason": "poison", "what": "w", "why": "y", "next": "n"})
    told = operator().dry_run(Request(StreamOperation.START, "flights")).detail
    assert "runs generation 1 again, which was blocked" in told
    assert told.endswith("lakeward streams upgrade flights --wait")
    outcome = operator().run(Request(StreamOperation.START, "flights", wait=False))
    assert outcome.detail.endswith("lakeward streams upgrade flights --wait")
