"""The driver's thread to a real registry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lakeward.driver.link import Link
from lakeward.registry import drivers, leases, streams
from lakeward.runtime import Launch


@pytest.fixture
def intended(launch: Launch, connect: Any) -> Launch:
    with connect() as connection:
        assert drivers.intend(connection, launch.driver, token=launch.token, previous=None, backend="local")
    return launch


@pytest.fixture
def make_link(registry_url: str) -> Iterator[Callable[[Launch], Link]]:
    made: list[Link] = []

    def make(launch: Launch) -> Link:
        made.append(Link(launch, registry_url, "here:1"))
        return made[-1]

    yield make
    for each in made:
        each.close()


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
    picture = _until(lambda: link.picture()[0])
    assert picture.run[stream].checkpoint == f"/ck/{stream}/1"
    with connect() as connection:
        assert leases.current(connection, "stream", [stream])[stream].token == intended.token
        assert drivers.find(connection, intended.driver).heartbeat is not None
    link.close()
    with connect() as connection:
        assert leases.current(connection, "stream", [stream]) == {}


def test_a_newer_launch_is_seen_and_refuses_the_claim(intended: Launch, make_link: Any, connect: Any) -> None:
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    with connect() as connection:
        drivers.intend(connection, intended.driver, token="newer", previous=intended.token, backend="local")
    _until(lambda: (picture := link.picture()[0]) is not None and picture.fenced)
    assert not make_link(intended).claim(0)


def test_a_lease_somebody_else_holds_is_not_taken(intended: Launch, make_link: Any, connect: Any, stream: str) -> None:
    with connect() as connection:
        assert leases.take(connection, "stream", stream, "theirs", "elsewhere", timedelta(minutes=5))
    link = make_link(intended)
    assert link.claim(0)
    link.start()
    link.look_now()
    assert not link.leased(stream)
    with connect() as connection:
        leases.release(connection, "stream", [stream], "theirs")
    _until(lambda: link.leased(stream))


def test_stopped_blocked_and_waiting_streams_do_not_run(
    intended: Launch, make_link: Any, connect: Any, stream: str
) -> None:
    from sqlalchemy import func, select

    link = make_link(intended)
    assert link.claim(0)
    link.start()

    def picture() -> Any:
        link.look_now()
        return link.picture()[0]

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
