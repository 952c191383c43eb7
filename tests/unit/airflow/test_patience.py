from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lakeward.airflow.tasks import patience
from lakeward.airflow.tasks.patience import WITHOUT_COUNT_S, Patience
from lakeward.platform.errors import TimedOut


class Clocks:
    """Wall time, and the part of it in which the thread had a CPU or queued for one."""

    wall = 100.0
    worked: float | None = 7.0

    def made(self, limit_s: float) -> Patience:
        return Patience(limit_s, lambda: self.wall, lambda: self.worked)


def test_cpu_that_is_used_or_never_given_is_not_waiting() -> None:
    clocks = Clocks()
    waiting = clocks.made(120.0)
    clocks.wall += 3600.0
    clocks.worked = 7.0 + 3590.0
    assert waiting.waited_s == pytest.approx(10.0)
    assert not waiting.over
    clocks.wall += 111.0
    assert waiting.over


def test_each_step_begins_again() -> None:
    clocks = Clocks()
    waiting = clocks.made(120.0)
    clocks.wall += 119.0
    waiting.step()
    clocks.wall += 119.0
    assert not waiting.over


def test_where_the_system_does_not_count_the_limit_is_longer() -> None:
    clocks = Clocks()
    clocks.worked = None
    waiting = clocks.made(120.0)
    clocks.wall += WITHOUT_COUNT_S - 1
    assert not waiting.over
    clocks.wall += 2
    assert waiting.over


def test_a_hang_is_ended_and_the_signal_is_given_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    reading, writing = os.pipe()
    try:
        with pytest.raises(TimedOut, match="waited for"), patience.limit("The pass", 0.2, look_s=0.05):
            os.read(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_work_is_never_ended_also_if_others_take_the_cpu() -> None:
    """Four busy processes on the one CPU that this thread may use: most of the wall time it only queues."""
    cpu = min(os.sched_getaffinity(0))
    busy = [
        subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"])
        for _ in range(4)
    ]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        with patience.limit("The pass", 1.0, look_s=0.05) as waiting:
            end = time.monotonic() + 3.0
            while time.monotonic() < end:
                sum(range(1000))
            assert waiting.waited_s < 1.0
    finally:
        os.sched_setaffinity(0, allowed)
        for process in busy:
            process.kill()
            process.wait()


def test_a_thread_that_cannot_be_interrupted_runs_without_a_limit() -> None:
    seen: list[float] = []

    def run() -> None:
        with patience.limit("The pass", 0.0, look_s=0.01) as waiting:
            time.sleep(0.1)
            seen.append(waiting.waited_s)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen
    assert seen[0] > 0.0


def test_the_pass_has_no_limit_by_the_clock_and_goes_before_everything_else() -> None:
    from lakeward.airflow import reconcile_dag

    dag = reconcile_dag.build()
    task = dag.get_task("reconcile")
    assert task.execution_timeout is None
    assert dag.dagrun_timeout is not None
    assert dag.dagrun_timeout.total_seconds() > 10 * reconcile_dag.WAITING_S
    assert (task.weight_rule, task.priority_weight) == ("absolute", 1000)
