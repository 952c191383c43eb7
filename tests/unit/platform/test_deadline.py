"""A wait on a silent socket ends; one that is answered leaves the socket as it is."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lakeward.platform.deadline import shut_after


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_wait_for_a_silent_peer_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _theirs = pair
    with shut_after(ours.fileno(), 0.0) as wait:
        assert ours.recv(1) == b""
    assert wait.over


def test_an_answer_in_time_leaves_the_socket_open(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.send(b"ab")
    with shut_after(ours.fileno(), 0.0) as wait:
        assert ours.recv(1) == b"a"
    silent, _other = socket.socketpair()
    with silent, _other, shut_after(silent.fileno(), 0.0):
        silent.recv(1)  # until the waits were looked at
    assert ours.recv(1) == b"b" and not wait.over
    theirs.send(b"c")
    assert ours.recv(1) == b"c"


def test_a_child_that_was_forked_in_a_wait_has_deadlines_of_its_own() -> None:
    script = """
import os, socket
from lakeward.platform.deadline import shut_after
parent, child, (mine, theirs) = *socket.socketpair(), socket.socketpair()
with shut_after(parent.fileno(), 60.0):
    pid = os.fork()
    if pid == 0:
        with shut_after(mine.fileno(), 0.0) as wait:
            mine.recv(1)
        os._exit(0 if wait.over else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "0"
