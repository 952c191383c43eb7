"""Failpoints: nothing unless asked, and then exactly there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.telemetry import failpoints

_PROGRAM = """
from lakeward.telemetry import failpoints
for step in ("one", "two", "two"):
    failpoints.hit(step)
    print(step, flush=True)
"""


def _run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_hook_runs_at_its_step_and_no_longer_than_asked() -> None:
    passed: list[str] = []

    with failpoints.on("one", lambda: passed.append("one")):
        failpoints.hit("one")
        failpoints.hit("two")
    failpoints.hit("one")

    assert passed == ["one"]


def test_what_a_hook_raises_is_raised_at_the_step() -> None:
    def fail() -> None:
        raise ConnectionError

    with failpoints.on("one", fail), pytest.raises(ConnectionError):
        failpoints.hit("one")


def test_the_environment_kills_at_the_named_time() -> None:
    ended = _run(LAKEWARD_FAILPOINT="two:2", LAKEWARD_FAILPOINTS_ALLOWED="1")

    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["one", "two"]


def test_nothing_dies_unless_it_is_allowed() -> None:
    assert _run(LAKEWARD_FAILPOINT="one").returncode == 0


def test_once_means_once_over_all_restarts(tmp_path: Path) -> None:
    once = str(tmp_path / "fired")
    asked = {"LAKEWARD_FAILPOINT": "one", "LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_ONCE": once}

    assert [_run(**asked).returncode for _ in range(3)] == [-signal.SIGKILL, 0, 0]


_STREAMS = """
from lakeward.telemetry import failpoints
for stream, number in (("a", 0), ("b", 1), ("a", 1)):
    with failpoints.batch(stream, number):
        failpoints.hit("one")
    print(stream, number, flush=True)
failpoints.hit("one")
"""


def test_one_stream_waits_at_its_batch_until_it_may_go_on(tmp_path: Path) -> None:
    armed = tmp_path / "a.one"
    armed.write_text("1")
    asked = {"LAKEWARD_FAILPOINT_FOLDER": str(tmp_path), "LAKEWARD_FAILPOINTS_ALLOWED": "1"}
    process = subprocess.Popen([sys.executable, "-c", _STREAMS], env=asked, stdout=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "a.one.reached").exists():
            assert process.poll() is None
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["a 0", "b 1"]
        armed.unlink()
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (rest.strip(), process.returncode) == ("a 1", 0)


def test_no_stream_waits_unless_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.one").write_text("0")
    command = [sys.executable, "-c", _STREAMS]
    assert (
        subprocess.run(command, env={"LAKEWARD_FAILPOINT_FOLDER": str(tmp_path)}, timeout=60, check=True).returncode
        == 0
    )
