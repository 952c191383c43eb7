"""The driver's thread to a real registry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import func, select, text

from lakeward.driver import registry_link as linking
from lakeward.driver.registry_link import TURN_S, RegistryLink
from lakeward.engine.assignment import DesiredState
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch
from lakeward.registry import drivers, engine, leases, observations, operations, streams, writer_pauses


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and renewals follow each other at once: what is tested is which of them changes what."""
    monkeypatch.setattr(linking, "LOOK_S", 0.05)
    monkeypatch.setattr(linking, "RENEW_S", 0.1)


@pytest.fixture
def intended(launch: Launch, connect: Any) -> Launch:
    with connect() as connection:
        assert drivers.record_intent(connection, launch.driver, token=launch.token, previous=None, backend="local")
    return launch


@pytest.fixture
def make_link(registry_url: str) -> Iterator[Callable[[Launch], RegistryLink]]:
    made: list[RegistryLink] = []

    def make(launch: Launch) -> RegistryLink:
        made.append(RegistryLink(launch, registry_url, "here:1"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _beside(link: RegistryLink, connect: Any, statement: str, **values: Any) -> None:
    """Somebody's hand in the registry, while no look of the link is under way."""
    with connect() as connection:
        connection.execute(text(statement), values)
    link.refresh()


def _until(done: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_it_claims_takes_the_streams_leases_and_beats(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.state = "running"
    link.start()
    _until(lambda: link.leased(stream))
    picture = _until(lambda: link.desired_state()[0])
    assert picture.run[stream].checkpoint == f"/ck/{stream}/1"
    with connect() as connection:
        assert leases.current(connection, "stream", [stream])[stream].token == intended.token
        assert drivers.find(connection, intended.driver).heartbeat is not None
    link.close()
    with connect() as connection:
        assert leases.current(connection, "stream", [stream]) == {}


def test_a_stopped_stream_gives_its_lease_back_when_its_query_has_ended_and_not_before(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    _until(lambda: link.leased(stream))
    link.busy = frozenset({stream})
    with connect() as connection:
        streams.set_desired(connection, [stream], "stopped")
    _until(lambda: (picture := link.desired_state()[0]) is not None and stream not in picture.run)
    link.refresh()
    with connect() as connection:
        assert leases.current(connection, "stream", [stream])[stream].live
    link.busy = frozenset()

    def given_back() -> bool:
        with connect() as connection:
            return leases.current(connection, "stream", [stream]) == {}

    _until(given_back)
    assert not link.leased(stream)


def test_a_newer_launch_is_seen_and_refuses_the_claim(intended: Launch, make_link: Any, connect: Any) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    with connect() as connection:
        drivers.record_intent(connection, intended.driver, token="newer", previous=intended.token, backend="local")
    _until(lambda: (picture := link.desired_state()[0]) is not None and picture.fenced)
    assert not make_link(intended).claim(0)


def test_a_lease_somebody_else_holds_is_not_taken(intended: Launch, make_link: Any, connect: Any, stream: str) -> None:
    with connect() as connection:
        assert leases.take(connection, "stream", stream, "theirs", "elsewhere", timedelta(minutes=5))
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    link.refresh()
    assert not link.leased(stream)
    with connect() as connection:
        leases.release(connection, "stream", [stream], "theirs")
    _until(lambda: link.leased(stream))


def test_stopped_blocked_and_waiting_streams_do_not_run(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()

    def picture() -> Any:
        link.refresh()
        return link.desired_state()[0]

    assert stream in picture().run
    with connect() as connection:
        streams.block(connection, stream, {"reason": "config"})
    assert (picture().run, picture().hosted) == ({}, {stream})
    with connect() as connection:
        streams.set_desired(connection, [stream], "running")
        now = connection.execute(select(func.now())).scalar_one()
        streams.set_run_after(connection, stream, now + timedelta(minutes=5))
    assert (picture().run, picture().later) == ({}, {stream})
    with connect() as connection:
        streams.set_desired(connection, [stream], "stopped")
    assert (picture().run, picture().later) == ({}, set())


def test_a_query_that_failed_waits_while_restarts_are_held_unless_a_person_asks_for_it(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()

    def runs() -> bool:
        link.refresh()
        return stream in link.desired_state()[0].run

    with connect() as connection:
        now = connection.execute(select(func.now())).scalar_one()
        streams.set_hold(connection, stream, now + timedelta(hours=1))
    assert runs(), "what runs, or starts for the first time, is not held"
    with connect() as connection:
        observations.record(connection, stream, query_state="failed")
    assert not runs()
    with connect() as connection:
        operations.request(connection, stream, "start", author="ada")
    assert runs()


def test_a_control_loop_that_stops_is_said_by_the_sign_of_life(intended: Launch, make_link: Any, connect: Any) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.state = "running"
    link.turned = time.monotonic()
    link.start()

    def state() -> str:
        with connect() as connection:
            return str(drivers.find(connection, intended.driver).state)

    _until(lambda: state() == "running")
    link.turned = time.monotonic() - TURN_S - 1
    _until(lambda: state() == drivers.STUCK)
    link.turned = time.monotonic()
    _until(lambda: state() == "running")


def test_a_lease_row_edited_by_hand_heals_or_is_left_to_whoever_it_names(
    intended: Launch, make_link: Any, connect: Any, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lease whose row was removed is taken again when its time is over, by the clock of the driver.
    monkeypatch.setattr(linking, "STREAM_TTL", timedelta(seconds=3))
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    _until(lambda: link.leased(stream))

    def token(scope: str, name: str) -> str | None:
        with connect() as connection:
            found = leases.current(connection, scope, [name]).get(name)
        return found.token if found is not None and found.live else None

    # Removed, or said to have lapsed long ago: taken up again, both the stream's and the driver's own.
    for scope, name in (("stream", stream), ("driver", intended.driver)):
        _beside(link, connect, "DELETE FROM leases WHERE scope = :s AND name = :n", s=scope, n=name)
        _until(lambda scope=scope, name=name: token(scope, name) == intended.token)
        _beside(link, connect, "UPDATE leases SET until = now() - interval '9 h' WHERE scope = :s AND name = :n",
                s=scope, n=name)  # fmt: skip
        _until(lambda scope=scope, name=name: token(scope, name) == intended.token)
    # Given to somebody else: not taken back while theirs is live; whoever lands is decided by the table.
    _beside(link, connect, "UPDATE leases SET token = 'theirs', until = now() + interval '1 h' WHERE name = :n",
            n=stream)  # fmt: skip
    link._until[stream] = 0.0  # its time to live is over
    link.refresh()
    assert not link.leased(stream)
    assert stream in link.desired_state()[0].run, "an exact stream lands on; the table fences it"
    assert not link.desired_state()[0].fenced
    _beside(link, connect, "UPDATE leases SET until = now() - interval '1 s' WHERE name = :n", n=stream)
    _until(lambda: link.leased(stream))


def test_a_lease_that_was_not_committed_is_not_held(
    intended: Launch, make_link: Any, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL goes away between the lease and its commit: nobody else knows that it is ours."""
    link = make_link(intended)
    assert link.claim(0)
    lost = 0

    @contextmanager
    def connect(url: str, pgpass: Any) -> Iterator[Any]:
        nonlocal lost
        with engine.engine(url, pgpass).connect() as connection:
            yield connection
            lost += 1
            connection.rollback()
            raise DependencyDown("PostgreSQL went away", why="before the commit")

    monkeypatch.setattr(linking.engine, "connect", connect)
    link.start()
    _until(lambda: lost >= 2)
    assert not link.leased(stream)
    monkeypatch.undo()
    _until(lambda: link.leased(stream))


@pytest.mark.parametrize("hours", [2, -2])
def test_a_clock_of_this_host_that_is_off_decides_nothing(
    intended: Launch, make_link: Any, connect: Any, stream: str, hours: int
) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours), tick=True):
        link = make_link(intended)
        assert link.claim(0)
        link.start()
        _until(lambda: link.leased(stream))
        with connect() as connection:
            now = connection.execute(select(func.now())).scalar_one()
            until = leases.current(connection, "stream", [stream])[stream].until
            streams.set_run_after(connection, stream, now + timedelta(minutes=30))
        assert abs((until - now).total_seconds()) < 60
        link.refresh()
        assert link.desired_state()[0].later == {stream}, "a pause ends by the database's clock"
        assert abs((link.desired_state()[0].now - now).total_seconds()) < 60


def test_a_registry_one_version_older_or_newer_is_read(
    launch: Launch, older_url: str, older_registry: Any, postgres: Any, make_stream: Any
) -> None:
    stream = make_stream(older_registry, launch.driver)
    with older_registry() as connection:
        drivers.record_intent(connection, launch.driver, token=launch.token, previous=None, backend="local")
        # What a later version might add.
        connection.execute(text("ALTER TABLE streams ADD COLUMN IF NOT EXISTS later TEXT NOT NULL DEFAULT 'x'"))
        connection.execute(text("ALTER TABLE generations ADD COLUMN IF NOT EXISTS later JSONB"))
    link = RegistryLink(launch, older_url, "here:1")
    try:
        assert link.claim(0)
        link.start()
        picture = _until(lambda: link.desired_state()[0])
        assert picture.run[stream].document == {"id": stream}
        assert link.leased(stream)
    finally:
        link.close()


def test_a_window_is_seen_and_a_stream_that_rests_in_it_says_so(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    _until(lambda: link.leased(stream))

    def awake() -> list[str]:
        with connect() as connection:
            return writer_pauses.running(connection, [stream, "not-running"])

    with connect() as connection:
        assert leases.take(connection, writer_pauses.WINDOW, "a.t", "mine", "a test", writer_pauses.TTL)
    _until(lambda: (link.desired_state()[0] or DesiredState(datetime.now(UTC))).windows == {"a.t": "mine"})
    assert awake() == [stream]
    link.pausing = frozenset({stream})
    _until(lambda: awake() == [])
    link.pausing = frozenset()
    _until(lambda: awake() == [stream])
    with connect() as connection:  # its maintenance died
        connection.execute(text("UPDATE leases SET until = now() - interval '1 s' WHERE scope = 'window'"))
    _until(lambda: (link.desired_state()[0] or DesiredState(datetime.now(UTC), windows={"?": "?"})).windows == {})
