from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import sleep

import psutil
import pytest

from lakeward.platform import process_group

PARENT = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("child.tmp").write_text(str(child.pid))
pathlib.Path("child.tmp").rename("child")
time.sleep(600)
"""


def run(folder: Path, program: str, limit_s: float) -> int:
    with (folder / "log").open("wb") as output:
        return process_group.run(
            [sys.executable, "-c", program], limit_s=limit_s, env=os.environ, cwd=folder, output=output
        )


def test_the_exit_code_and_what_was_printed(tmp_path):
    assert run(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", 60) == 3
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_a_command_that_takes_too_long_ends_with_all_that_it_started(tmp_path):
    limit_s = 1.0
    while not (tmp_path / "child").exists():  # on a busy machine the limit is over before the child is started
        with pytest.raises(subprocess.TimeoutExpired):
            run(tmp_path, PARENT, limit_s)
        limit_s *= 2
    child = int((tmp_path / "child").read_text())
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:  # init has not collected it yet
            sleep(0.05)


def test_a_command_that_cannot_be_started(tmp_path):
    with (tmp_path / "log").open("wb") as output, pytest.raises(FileNotFoundError):
        process_group.run([str(tmp_path / "missing")], limit_s=1, env={}, cwd=tmp_path, output=output)
