"""A part that starts again ends what its killed predecessor left, and touches nothing that still serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakeward.stack import run
from lakeward.stack.program import Program
from lakeward.stack.state import Process

# Three children as a killed scheduler leaves them: an idle worker, a busy one, something else.
PREDECESSOR = """
import subprocess, sys, time
from setproctitle import setproctitle
child = '''
import sys, time, signal
from setproctitle import setproctitle
signal.signal(signal.SIGTERM, signal.SIG_IGN)
setproctitle(sys.argv[1]); print("ready", flush=True); time.sleep(60)
'''
titles = ["airflow worker -- LocalExecutor: <idle>", "airflow worker -- LocalExecutor: task x", "helper"]
children = [subprocess.Popen([sys.executable, "-c", child, title], stdout=subprocess.PIPE) for title in titles]
for one in children: one.stdout.readline()
print(*[one.pid for one in children], flush=True)
time.sleep(60)
"""


@pytest.fixture
def killed() -> Iterator[tuple[Process, list[int]]]:
    """(the killed predecessor, pids of its idle worker, busy worker, helper)."""
    leader = subprocess.Popen([sys.executable, "-c", PREDECESSOR], stdout=subprocess.PIPE, text=True, process_group=0)
    assert leader.stdout is not None
    pids = [int(word) for word in leader.stdout.readline().split()]
    identity = Process.of(leader.pid)
    leader.kill()
    leader.communicate()
    yield identity, pids
    for pid in pids:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def test_idle_leftovers_end_and_a_busy_worker_goes_on(killed: tuple[Process, list[int]], tmp_path: Path) -> None:
    predecessor, (idle, busy, helper) = killed
    assert {process.pid for process in run.leftovers(predecessor)} == {idle, helper}
    record = tmp_path / "scheduler.process.json"
    record.write_text(predecessor.model_dump_json())

    run.sweep(record)

    gone, _ = psutil.wait_procs([psutil.Process(pid) for pid in (idle, helper) if psutil.pid_exists(pid)], timeout=5)
    assert all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie" for pid in (idle, helper)), gone
    assert psutil.Process(busy).is_running()
    assert Process.model_validate_json(record.read_text()) == Process.of(os.getpid())


def test_a_living_predecessor_is_left_alone() -> None:
    assert run.leftovers(Process.of(os.getpid())) == []


def test_the_first_start_has_nothing_to_sweep(tmp_path: Path) -> None:
    run.sweep(tmp_path / "x.process.json")
    (tmp_path / "x.process.json").write_text("half a rec")
    run.sweep(tmp_path / "x.process.json")
    assert Process.model_validate_json((tmp_path / "x.process.json").read_text()).pid == os.getpid()


def test_it_becomes_the_program_with_exactly_its_environment(tmp_path: Path) -> None:
    tricky = "a \"b\" %s \\ 'c' ;"
    program = Program([sys.executable, "-c", "import os; print(os.environ['X'], os.getcwd(), 'Y' in os.environ)"],
                      {"X": tricky}, folder=str(tmp_path))  # fmt: skip
    run.save(tmp_path, "part", program)
    assert run.load(tmp_path, "part") == program
    done = subprocess.run(
        [sys.executable, "-m", "lakeward.stack.run", str(tmp_path), "part"],
        env={**os.environ, "Y": "of the caller"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"{tricky} {tmp_path} False"
