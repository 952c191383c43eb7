"""Each check says what it found, what it wants and the exact next command."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lakeward.platform import ports
from lakeward.platform.runtime import Home
from lakeward.stack import doctor
from lakeward.stack.state import StackState

GIB = 1024**3


@pytest.mark.parametrize(("version", "ok"), [((3, 10), False), ((3, 11), True), ((3, 12), True), ((3, 13), False)])
def test_python(version: tuple[int, int], ok: bool) -> None:
    check = doctor.python(version)
    assert check.ok is ok
    assert check.next


def test_memory_and_disk_have_a_limit_each(tmp_path: Path) -> None:
    assert doctor.memory(StackState(), lambda: 8 * GIB).ok
    short = doctor.memory(StackState(), lambda: GIB)
    assert not short.ok
    assert "--only" in short.next
    assert short.found == "1.0 GB available"
    assert doctor.disk(Home(tmp_path), lambda path: 100 * GIB).ok
    full = doctor.disk(Home(tmp_path), lambda path: GIB // 2)
    assert not full.ok
    assert "--home" in full.next


def test_java_and_jars_carry_the_command_of_their_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert not doctor.java().ok
    assert doctor.java().next
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))
    assert not doctor.jar_files().ok
    assert doctor.jar_files().next == "python -m lakeward.jars"


def test_a_taken_port_is_told_and_is_no_fault() -> None:
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        state = StackState(ports={"kafka": other.getsockname()[1]})
        [check] = [check for check in doctor.port_checks(state) if check.name == "port kafka"]
    assert check.ok
    assert "in use by" in check.found
    assert "next free one" in check.found


@pytest.mark.parametrize(
    ("group", "word"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
        ("0::/system.slice/docker-abc.scope\n", "container"),
    ],
)
def test_what_ends_drivers_with_it_is_said(tmp_path: Path, group: str, word: str) -> None:
    file = tmp_path / "cgroup"
    file.write_text(group)
    assert word in doctor.survival(file).found or "container" in doctor.survival(file).found


def test_a_home_where_nothing_runs_is_told_how_to_start(tmp_path: Path) -> None:
    from lakeward.platform.runtime import Project

    names = {check.name: check for check in doctor.examine(Project(tmp_path), Home(tmp_path / "home"))}
    assert names["stack"].next == "lakeward stack up"
    assert {"python", "java", "memory", "disk", "jars", "port postgres", "driver survival"} <= set(names)
    assert not (tmp_path / "home").exists(), "looking changes nothing"


def test_a_user_without_a_home_folder_is_told_where_to_say_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEWARD_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 654_321)  # as in a container; nobody's number here
    check = doctor.jar_files()
    assert not check.ok
    assert check.next == "export XDG_CACHE_HOME=DIR"
