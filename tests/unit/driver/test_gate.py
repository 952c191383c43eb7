"""Stopping between batches."""

from __future__ import annotations

import threading

import pytest

from lakeward.driver.gate import Draining, Gate


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
