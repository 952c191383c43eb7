"""`stack up` and its parts are killed at each step of Airflow's start: the next `stack up` ends in a running stack."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from lakeward import jars
from lakeward.platform.runtime import Home, Project
from lakeward.stack import airflow_pool, supervised
from lakeward.stack.stack import Stack
from lakeward.stack.state import StackState

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes

MIGRATION, PARTS = "airflow db migrate", "airflow-scheduler"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack that never ran; whatever is left of it is killed at the end."""
    jars.ensure()
    yield Stack(Project(tmp_path / "project"), Home(tmp_path / "home"))
    for process in of(tmp_path / "home"):
        process.kill()


def command(stack: Stack, *words: str) -> list[str]:
    program = [sys.executable, "-c", "from lakeward.cli.app import main; main()", "stack", *words]
    return [*program, "--home", str(stack.home.root), "--project", str(stack.project.root)]


def start(stack: Stack) -> subprocess.Popen[bytes]:
    """`stack up` of Airflow, in a session of its own, as from a terminal."""
    words = command(stack, "up", "--only", "airflow", "--no-deploy")
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def of(home: Path) -> list[psutil.Process]:
    """The live processes that were started for this home: by their arguments, or their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            named = str(home) in " ".join(process.cmdline()) or process.environ().get("LAKEWARD_HOME") == str(home)
        except psutil.Error:
            continue
        if named and process.pid != os.getpid():
            found.append(process)
    return found


def runs(stack: Stack, words: str) -> bool:
    """Whether a process of the stack has these words in its command."""
    for process in of(stack.home.root):
        try:
            if words in " ".join(process.cmdline()):
                return True
        except psutil.Error:
            continue
    return False


def until(so: Callable[[], object], what: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.05)


def airflow_works(stack: Stack) -> bool:
    """Whether a user can log in, and the pools are as the start leaves them."""
    try:
        with supervised.client(stack.site(), timeout_s=60) as airflow:
            pools = {pool["name"]: pool["slots"] for pool in airflow.get("/api/v2/pools").json()["pools"]}
    except httpx.HTTPError:
        return False
    return pools[airflow_pool.NAME] == 1 and pools[airflow_pool.DEFAULT] != airflow_pool.UNTOUCHED


@pytest.mark.campaign
@pytest.mark.parametrize("victims", ["start", "program", "everything", "supervisor"])
@pytest.mark.parametrize("moment", [MIGRATION, PARTS])
def test_the_next_start_ends_in_a_running_stack(stack: Stack, moment: str, victims: str) -> None:
    starting = start(stack)
    until(lambda: runs(stack, moment) or starting.poll() is not None, moment)
    assert starting.poll() is None, "the start ended before it could be killed"
    supervisor = StackState.load(stack.home).supervisor
    assert supervisor is not None
    if victims == "program":
        for process in of(stack.home.root):
            if moment in " ".join(process.cmdline()):
                process.kill()
    elif victims == "supervisor":
        os.kill(supervisor.pid, 9)
    else:
        starting.kill()
        if victims == "everything":
            for process in of(stack.home.root):
                process.kill()
    starting.wait(900)  # of a start that was not killed itself: it fails, or its supervisor starts the part again

    assert start(stack).wait(900) == 0
    until(lambda: all(part.state == "up" for part in stack.status()), "each part to be up")
    until(lambda: airflow_works(stack), "Airflow's API", 120)

    down = subprocess.run(command(stack, "down"), capture_output=True, text=True, check=False)
    assert down.returncode == 0, down.stderr
    until(lambda: not of(stack.home.root), "each process to end", 30)
    assert [file.name for file in (stack.home.root / "postgres").iterdir()] == ["data"]


@pytest.mark.campaign
@pytest.mark.parametrize("moment", [MIGRATION, PARTS])
def test_nothing_of_a_killed_start_outlives_the_stop(stack: Stack, moment: str) -> None:
    starting = start(stack)
    until(lambda: runs(stack, moment), moment)
    starting.kill()
    starting.wait()
    down = subprocess.run(command(stack, "down"), capture_output=True, text=True, check=False)
    assert down.returncode == 0, down.stderr
    until(lambda: not of(stack.home.root), "each process to end", 30)
