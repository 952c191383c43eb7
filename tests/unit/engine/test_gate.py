"""Stopping between batches."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress

import pytest

from lakeward.engine.gate import Draining, Gate


def test_a_closed_gate_turns_a_batch_away_and_lets_the_running_one_finish() -> None:
    gate, inside, go = Gate(), threading.Event(), threading.Event()
    ended: list[int] = []

    def work() -> None:
        with gate.batch(7):
            inside.set()
            go.wait(10)
            ended.append(7)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    gate.close()
    assert not gate.wait_empty(0)
    with pytest.raises(Draining), gate.batch(8):
        raise AssertionError("a batch got through a closed gate")
    go.set()
    assert gate.wait_empty(10)
    thread.join()
    assert (ended, gate.newest, gate.inside_last) == ([7], 7, 7)


def test_a_failed_batch_is_not_the_newest_finished_one() -> None:
    gate = Gate()
    with gate.batch(0):
        pass
    with pytest.raises(ValueError, match="broken"), gate.batch(1):
        raise ValueError("broken")
    assert (gate.newest, gate.inside_last) == (0, 1)


def test_a_batch_that_waits_is_woken_by_a_stop() -> None:
    gate = Gate()
    timer = threading.Timer(0.05, gate.close)
    timer.start()
    with pytest.raises(Draining), gate.batch(0):
        gate.pause(60)
    timer.join()


def test_a_pause_ends_by_itself() -> None:
    gate = Gate()
    with gate.batch(0):
        gate.pause(0.01)
    assert gate.newest == 0


def test_a_gate_lets_batches_in_no_closer_together_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, now, waited = Gate(), [100.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(gate._changed, "wait", wait)

    def batch(number: int, seconds: float = 1) -> float:
        with gate.batch(number):
            begun = now[0]
            now[0] += seconds
        return begun

    gate.space(10, 60)
    assert batch(0) == 100, "the first one follows none"
    assert batch(1) == 110
    assert batch(2, seconds=15) == 120
    assert batch(3) == 135, "one that took longer has had its distance"
    gate.space(math.inf, 7)
    assert batch(4) == 136 + 7, "held, until nobody says so any more"
    gate.space(0)
    assert batch(5) == 144
    assert [round(each) for each in waited] == [9, 9, 7]


def test_a_resting_gate_holds_the_next_batch_until_it_is_released_or_forgotten() -> None:
    gate, entered = Gate(), threading.Event()

    def work(number: int) -> None:
        with suppress(Draining), gate.batch(number):
            entered.set()

    assert not gate.paused
    with gate.batch(0):
        gate.pause_for(60)
        assert not gate.paused, "a batch is inside: it may end, and only then the gate stands aside"
    assert gate.paused
    thread = threading.Thread(target=work, args=(1,))
    thread.start()
    assert not entered.wait(0.2)
    assert (gate.waits, gate.inside) == (True, None), "it waits, and is not taken for one that hangs"
    gate.pause_for(0)
    assert entered.wait(10)
    thread.join()
    assert (gate.waits, gate.newest, gate.paused) == (False, 1, False)

    gate.pause_for(0.05)  # and nobody comes back for it
    with gate.batch(2):
        assert not gate.paused
    gate.pause_for(60)
    entered.clear()
    thread = threading.Thread(target=work, args=(3,))
    thread.start()
    gate.close()
    thread.join(10)
    assert not thread.is_alive()
    assert not entered.is_set(), "a stop wakes it, and turns it away"
