"""What a stack remembers, and who may work on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.platform.errors import LakewardError, Refused
from lakeward.platform.runtime import Home
from lakeward.stack.state import Process, StackState, exclusive


def test_the_state_survives_a_round(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert StackState.load(home) == StackState()
    state = StackState(ports={"kafka": 19092}, supervisor=Process.of(os.getpid()), parts=["kafka"])
    state.save(home)
    assert StackState.load(home) == state
    assert state.running


def test_a_damaged_state_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(LakewardError) as error:
        StackState.load(Home(tmp_path))
    assert str(tmp_path / "stack.json") in error.value.why


def test_a_process_is_not_mistaken_for_another_with_its_number() -> None:
    me = Process.of(os.getpid())
    assert me.alive()
    assert not me.model_copy(update={"created": me.created - 100}).alive()
    assert not me.model_copy(update={"boot": "another boot"}).alive()


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = Process.of(child.pid)
    assert identity.alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet reaped
    assert not identity.alive()
    child.communicate()
    assert not identity.alive()


def test_two_commands_at_once_are_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    with exclusive(home), pytest.raises(Refused, match="running in this home"), exclusive(home):
        pass
    with exclusive(home):
        pass
