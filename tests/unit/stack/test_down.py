"""`stack down` says what it did: it finds a supervisor its memory does not know, and claims nothing where none is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeward.cli.app import main
from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Home, Project
from lakeward.stack import session
from lakeward.stack.stack import Stack
from lakeward.stack.state import Process, StackState, exclusive
from lakeward.stack.supervisor import Supervisor


@pytest.fixture
def forgotten(tmp_path: Path) -> Iterator[tuple[Home, Process]]:
    """A home with a supervisor that runs, without parts, and that no stack.json knows of."""
    home = Home(tmp_path / "h")
    home.logs.mkdir(parents=True)
    supervisor = Supervisor(home)
    supervisor.write([])
    process = supervisor.start()
    yield home, process
    session.end(session.members(process))


def down(home: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    with pytest.raises(SystemExit) as end:
        main(["stack", "down", "-o", "json", "--home", str(home)])
    assert end.value.code == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_home_without_a_stack_is_named_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = down(tmp_path, capsys)
    assert said["stopped"] is False
    assert f"no stack is known in {tmp_path}" in str(said["why"])
    assert list(tmp_path.iterdir()) == []
    StackState(ports={"kafka": 1}).save(Home(tmp_path))
    assert "does not run" in str(down(tmp_path, capsys)["why"])


def test_a_stack_that_just_starts_is_not_called_unknown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with exclusive(home), pytest.raises(Refused, match="running in this home"):
        Stack(Project(tmp_path), home).down(None, print)


@pytest.mark.parametrize("gone", [(), ("supervisord.pid",), ("control",)])
def test_a_supervisor_nobody_remembers_is_found_and_stopped(
    forgotten: tuple[Home, Process], gone: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    home, process = forgotten
    for name in gone:
        (home.root / "supervisor" / name).unlink()
    assert Supervisor(home).find() == process
    if gone != ("control",):  # nobody can ask it to end then; its session is ended as that of a hanging one
        assert down(home.root, capsys)["stopped"] is True
        assert not process.alive()
        assert StackState.load(home).supervisor is None


def test_another_process_with_its_number_is_not_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "supervisor").mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "supervisor" / "supervisord.pid").write_text(f"{other.pid}\n")
        assert Supervisor(home).find() is None
        other.kill()
