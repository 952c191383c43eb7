"""Whatever is sent to a stopped server after `stopped` has begun is not answered before it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from stopped import stopped

THREADS = 40


@pytest.fixture
def many_threads(tmp_path: Path):
    """A process whose many threads do something all the time."""
    program = (
        "import threading, time\n"
        "def work():\n"
        "    while True: time.sleep(0.0001)\n"
        f"for _ in range({THREADS}): threading.Thread(target=work, daemon=True).start()\n"
        "print('there', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        process.kill()


def states(pid: int) -> set[str]:
    """The states of all threads."""
    tasks = Path(f"/proc/{pid}/task")
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()}


@pytest.mark.skipif(not Path("/proc").exists(), reason="the states of threads are read from /proc")
def test_every_thread_has_stopped_when_it_begins(many_threads: subprocess.Popen[bytes]) -> None:
    for _ in range(20):
        with stopped(many_threads):
            assert states(many_threads.pid) == {"T"}
        os.waitid(os.P_PID, many_threads.pid, os.WCONTINUED)
    assert psutil.Process(many_threads.pid).status() != psutil.STATUS_STOPPED


def test_a_process_that_has_ended_is_not_a_silent_one() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(AssertionError, match="has ended"), stopped(process):
            pass
