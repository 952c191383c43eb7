from __future__ import annotations

from threading import Barrier, Event, Thread

import pytest
from small_streams import eventually

from lakeward.platform.errors import DependencyDown
from lakeward.web.cached import MOST_KEYS, Cache

__all__ = ["eventually"]  # a fixture


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Counts its readings; fails while it is away."""

    def __init__(self) -> None:
        self.readings, self.away = 0, False

    def read(self) -> int:
        self.readings += 1
        if self.away:
            raise DependencyDown("The registry does not answer", why="postgresql://me:canary@h refused", code="LW-6001")
        return self.readings


def test_a_reading_is_shared_until_it_is_old() -> None:
    clock, source = Clock(), Source()
    cache = Cache[int](3.0, clock=clock)
    assert cache.get("", source.read).value == 1
    clock.now = 2.9
    again = cache.get("", source.read)
    assert (again.value, again.age_s, again.stale, source.readings) == (1, 2.9, None, 1)
    clock.now = 15.1
    assert cache.get("", source.read).value == 2


def test_an_expensive_reading_is_repeated_less_often(eventually) -> None:
    clock, used, source = Clock(), Clock(), Source()
    cache = Cache[int](3.0, clock=clock, cpu=used)

    def read() -> int:
        used.now += 5.0
        return source.read()

    cache.get("", read)
    clock.now = 19.9
    assert cache.get("", read).value == 1
    assert source.readings == 1
    clock.now = 20.1
    cache.get("", read)
    eventually(lambda: source.readings == 2)


def test_nobody_waits_while_there_is_a_recent_reading(eventually) -> None:
    clock, source, release = Clock(), Source(), Event()
    cache = Cache[int](3.0, clock=clock)
    cache.get("", source.read)
    clock.now = 10.0

    def slow() -> int:
        release.wait(60)
        return source.read()

    assert [cache.get("", slow).value for _ in range(5)] == [1] * 5
    release.set()
    eventually(lambda: cache.get("", slow).value == 2)
    assert source.readings == 2, "one caller's reading serves all"


def test_callers_at_the_same_time_share_one_reading() -> None:
    source, begin = Source(), Barrier(8)
    cache = Cache[int](60.0)

    def ask() -> None:
        begin.wait()
        cache.get("", source.read)

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.readings == 1


def test_what_cannot_be_read_again_is_shown_with_its_age_and_the_reason() -> None:
    clock, source = Clock(), Source()
    cache = Cache[int](3.0, clock=clock)
    cache.get("", source.read)
    clock.now, source.away = 240.0, True
    last = cache.get("", source.read)
    assert (last.value, last.age_s) == (1, 240.0)
    assert last.stale is not None and "does not answer" in last.stale
    assert "canary" not in last.stale
    for _ in range(5):
        cache.get("", source.read)
    assert source.readings == 2, "a dependency that is away is not asked by each client"
    clock.now, source.away = 244.0, False
    assert cache.get("", source.read).stale is None


def test_what_was_never_read_is_an_error() -> None:
    source = Source()
    source.away = True
    with pytest.raises(DependencyDown):
        Cache[int](3.0).get("", source.read)


def test_the_readings_that_are_kept_are_bounded() -> None:
    source = Source()
    cache = Cache[int](60.0)
    for number in range(MOST_KEYS + 1):
        cache.get(str(number), source.read)
    cache.get(str(MOST_KEYS), source.read)
    assert source.readings == MOST_KEYS + 1
    cache.get("0", source.read)
    assert source.readings == MOST_KEYS + 2
