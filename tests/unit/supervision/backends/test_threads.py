"""Threads of real processes, a JVM among them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from lakeward import jars
from lakeward.supervision.backends import threads

JAVA = """
public class Sleeps {
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setName("lands-nothing");
        Thread.sleep(600_000);
    }
}
"""
PARENT = "import subprocess, sys; subprocess.run(sys.argv[1:])"


@pytest.fixture
def parent(tmp_path):
    """A Python process with a JVM below it, as a driver is; its command line and environment hold a secret."""
    source = tmp_path / "Sleeps.java"
    source.write_text(JAVA)
    java = str(jars.find_java().home / "bin" / "java")

    @contextmanager
    def start():
        command = [sys.executable, "-c", PARENT, java, "-Dsecret=hunter2", str(source)]
        process = subprocess.Popen(command, start_new_session=True, env={**os.environ, "SECRET": "hunter2"})
        try:
            deadline = time.monotonic() + 60
            while not any(child.name() == "java" for child in psutil.Process(process.pid).children(recursive=True)):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    return start


def test_the_jvms_threads_are_written_down_without_what_it_was_started_with(parent, tmp_path) -> None:
    with parent() as pid:
        deadline = time.monotonic() + 60
        text = ""
        while "lands-nothing" not in text and time.monotonic() < deadline:
            file = threads.write(pid, tmp_path)
            text = file.read_text() if file else ""
    assert '"lands-nothing"' in text
    assert "hunter2" not in text
    assert len(list((tmp_path / threads.FOLDER).iterdir())) <= threads.KEEP


def test_a_frozen_jvm_holds_nobody_up(parent, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(threads, "ANSWER_S", 1.0)
    with parent() as pid:
        os.killpg(pid, signal.SIGSTOP)
        file = threads.write(pid, tmp_path)
        os.killpg(pid, signal.SIGCONT)
    assert file is None or "lands-nothing" not in file.read_text()


def test_a_process_that_is_gone_has_no_threads(tmp_path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert threads.write(child.pid, tmp_path) is None
