"""A program that ends is started again in its container; SIGTERM ends both."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

PROGRAM = """
import subprocess, sys, time
from pathlib import Path
log = Path(sys.argv[1])
runs = len(log.read_text().splitlines()) if log.exists() else 0
detached = "" if runs else subprocess.Popen(["sleep", "60"], start_new_session=True, stderr=subprocess.DEVNULL).pid
with log.open("a") as out:
    out.write(f"{detached}\\n")
time.sleep(60 if runs else 0)
sys.exit(3)
"""


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_program_that_ends_is_started_again_and_what_it_left_lives_on(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    keeper = subprocess.Popen(
        [sys.executable, "-m", "lakeward.stack.container_keep", sys.executable, "-c", PROGRAM, str(log)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _until(lambda: log.exists() and len(log.read_text().splitlines()) == 2)
        detached = psutil.Process(int(log.read_text().split()[0]))
        assert detached.status() != psutil.STATUS_ZOMBIE
        assert keeper.poll() is None
        keeper.send_signal(signal.SIGTERM)
        _, said = keeper.communicate(timeout=60)
        assert "ended with 3; it is started again" in said
        assert keeper.returncode != 0
        assert len(log.read_text().splitlines()) == 2, "SIGTERM starts nothing"
    finally:
        keeper.kill()
        with suppress(FileNotFoundError, IndexError, psutil.NoSuchProcess):
            psutil.Process(int(log.read_text().split()[0])).kill()
