from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from lakeward.platform.runtime import Runtime
from lakeward.registry import heartbeats, incidents, leases, observations, streams
from lakeward.registry.heartbeats import Heartbeat
from lakeward.supervision import announce, dead_mans_switch, observe, pass_progress, report
from lakeward.supervision.dead_mans_switch import QUIET, RECONCILE, WATCHER, WITHOUT_PASS_S, latest
from lakeward.supervision.quiet_pass import ENOUGH_S, EVERY_S, REPEAT_S, QuietPass
from lakeward.supervision.reconcile import reconcile_once
from lakeward.supervision.startup_grace import StartupGracePeriod


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def age(connected, name: str, seconds: float) -> None:
    with connected() as connection:
        connection.execute(
            text("UPDATE ticks SET at = now() - make_interval(secs => :s) WHERE name = :n"), {"s": seconds, "n": name}
        )


def beats(connected, name: str) -> Heartbeat | None:
    with connected() as connection:
        return heartbeats.newest(connection, name)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quiet(connected, runtime, backend, clock, monkeypatch) -> QuietPass:
    monkeypatch.setattr(StartupGracePeriod, "answered", lambda self, server_up_s: None)
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    return QuietPass(connected, runtime, backend, clock=clock)


@pytest.fixture
def settled(connected, runtime, backend, deployed, eventually, quiet):
    """One healthy stream of which everything was reported, announced and recorded by whole passes."""
    deployed("flights")

    def once() -> None:
        reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)

    def healthy() -> bool:
        once()
        with connected() as connection:
            return streams.find(connection, "flights").state == "healthy"

    eventually(healthy)
    send(connected, runtime)
    age(connected, RECONCILE, ENOUGH_S + 5)
    return once


def send(connected, runtime: Runtime) -> None:
    """What the task of a whole pass sends: reports and events."""
    with connected() as connection:
        due = report.due(connection)
    for item in due:
        found = report.of_stream(connected, runtime, item.stream)
        with connected() as connection:
            report.record(connection, found)
    with connected() as connection:
        facts = observe.read(connection, whole=False)
        announce.remember(connection, announce.decide(facts, announce.read(connection))[1])


def test_while_nothing_is_to_be_done_no_pass_is_requested_and_the_streams_count_as_supervised(
    connected, settled, quiet, clock
) -> None:
    assert quiet.poll() == []
    assert beats(connected, QUIET) is not None
    age(connected, RECONCILE, 500.0)
    with connected() as connection:
        assert dead_mans_switch.missed_passes(connection) is None
        assert dead_mans_switch.newest(connection).age_s < 60
    clock.now += EVERY_S
    assert quiet.poll() == []


def test_it_says_nothing_right_after_a_whole_pass(connected, settled, quiet, clock) -> None:
    settled()
    with connected() as connection:
        connection.execute(text("UPDATE streams SET state = 'stalled'"))
    assert quiet.poll() == []
    assert beats(connected, QUIET) is None
    assert beats(connected, WATCHER) is not None


def test_a_dead_driver_is_a_reason_until_a_pass_has_come(
    connected, settled, quiet, clock, backend, sigkill, eventually
) -> None:
    (job,) = [item for item in backend.find() if item.handle]
    sigkill(job.handle["pid"])
    found: list[str] = []

    def seen() -> bool:
        clock.now += REPEAT_S
        found[:] = quiet.poll()
        return any("its process is gone" in each for each in found)

    eventually(seen)
    assert quiet.poll() == [], "not twice at once"
    clock.now += REPEAT_S
    assert quiet.poll() == found
    assert beats(connected, QUIET) is None
    age(connected, RECONCILE, 181.0)
    with connected() as connection:
        assert dead_mans_switch.missed_passes(connection) is not None


def test_what_a_pass_would_record_is_recorded_and_what_only_a_task_can_send_is_a_reason(
    connected, settled, quiet, clock
) -> None:
    with connected() as connection:
        connection.execute(text("UPDATE streams SET state = 'lagging', why = 'as before'"))
    age(connected, RECONCILE, ENOUGH_S + 5)
    quiet.poll()
    with connected() as connection:
        assert streams.find(connection, "flights").state == "healthy", "recorded by the quiet pass"


def test_messages_operations_and_events_need_a_task(connected, settled, quiet, clock) -> None:
    assert quiet.poll() == []
    with connected() as connection:
        incidents.opened(connection, incidents.OPERATION, "flights", "it takes long", streams=["flights"])
    clock.now += EVERY_S
    assert {"messages about incidents are pending", "an operation takes too long"} <= set(quiet.poll())
    with connected() as connection:
        incidents.closed(connection, incidents.OPERATION, "flights", "over")
        for item in incidents.pending(connection):
            incidents.remember_message(connection, item.id, incidents.Message(text=item.text, channel_name="log"))
        known = {name: {**value, "state": "stopped"} for name, value in announce.read(connection).items()}
        announce.remember(connection, known)
    clock.now += REPEAT_S
    assert quiet.poll() == ["flights: state to announce"]
    with connected() as connection:
        announce.remember(connection, {})
    clock.now += REPEAT_S
    assert quiet.poll() == ["a stream is new or was retired"]


def test_rows_that_no_check_has_seen_need_a_task(connected, runtime, backend, settled, clock) -> None:
    sink = """UPDATE generations SET spec = spec || '{"sink": {"iceberg": {"table": "nyc.flights"}}}'::jsonb"""
    with connected() as connection:
        connection.execute(text(sink))
        observations.record(connection, "flights", committed_at=datetime.now(UTC), snapshot_id=7)
    for suites, wanted in (((), False), (("nyc.flights",), True)):
        found = QuietPass(connected, runtime, backend, suites=lambda suites=suites: suites, clock=clock).poll()
        assert ("unchecked rows" in found) is wanted


def test_a_pass_that_was_cut_short_or_never_came_is_repeated(connected, settled, quiet, clock) -> None:
    with connected() as connection:
        pass_progress.begin(connection)
    assert quiet.poll() == ["a pass did not finish"]
    with connected() as connection:
        connection.execute(text("DELETE FROM ticks WHERE name = 'reconcile'"))
    clock.now += REPEAT_S
    assert quiet.poll() == ["no pass has succeeded yet"]


def test_beside_a_pass_it_does_nothing(connected, settled, quiet) -> None:
    with connected() as connection:
        leases.take(connection, "reconcile", "streams", "of-a-pass", "Airflow", timedelta(minutes=1))
    assert quiet.poll() == []
    assert beats(connected, QUIET) is None


def beat(name: str, age_s: float) -> Heartbeat:
    return Heartbeat(name, datetime(2026, 3, 1, tzinfo=UTC) - timedelta(seconds=age_s), 0.4, {"acts": 1}, age_s)


@pytest.mark.parametrize(
    ("whole", "quiet_s", "counts_s"),
    [
        (None, 5.0, None),  # nothing proves that a task ever runs
        (beat(RECONCILE, 400.0), None, 400.0),
        (beat(RECONCILE, 400.0), 20.0, 20.0),
        (beat(RECONCILE, 10.0), 70.0, 10.0),
        (beat(RECONCILE, WITHOUT_PASS_S + 1), 20.0, WITHOUT_PASS_S + 1),  # the Dag is paused
    ],
)
def test_the_word_of_the_watcher_counts_while_whole_passes_come_by_their_schedule(whole, quiet_s, counts_s) -> None:
    counts = latest(whole, None if quiet_s is None else beat(QUIET, quiet_s))
    assert (None if counts is None else counts.age_s) == counts_s


def test_a_watcher_that_is_silent_for_long_is_an_incident_and_its_return_ends_it(
    connected, runtime, backend, settled, quiet
) -> None:
    quiet.poll()
    age(connected, WATCHER, WITHOUT_PASS_S + 10)
    age(connected, RECONCILE, 3 * 3600)  # the machine was off: that proves nothing
    settled()
    with connected() as connection:
        assert ("reconcile", "watcher") not in incidents.open_ones(connection)
    settled()
    with connected() as connection:
        found = incidents.open_ones(connection)[("reconcile", "watcher")]
    assert found.text.startswith("Airflow's triggerer has not watched the streams for 23 min")
    age(connected, WATCHER, 1)
    settled()
    with connected() as connection:
        assert ("reconcile", "watcher") not in incidents.open_ones(connection)
