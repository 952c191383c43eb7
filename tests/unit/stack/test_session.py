"""The processes of a session are found and ended; those of others never."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from lakeward.stack import session
from lakeward.stack.state import Process

# A leader with a child that ignores SIGTERM and another that founds a session of its own, as a driver does.
LEADER = """
import os, subprocess, sys, time
detached = "import time; print('ready', flush=True); time.sleep(60)"
stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + detached
a = subprocess.Popen([sys.executable, '-c', stubborn], stdout=subprocess.PIPE)
b = subprocess.Popen([sys.executable, '-c', detached], stdout=subprocess.PIPE, start_new_session=True)
a.stdout.readline(); b.stdout.readline()
print(a.pid, b.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """(leader, its stubborn child's pid, the detached one's pid)."""
    leader = subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert leader.stdout is not None
    stubborn, detached = map(int, leader.stdout.readline().split())
    yield leader, stubborn, detached
    for pid in (leader.pid, stubborn, detached):
        if psutil.pid_exists(pid):
            psutil.Process(pid).kill()
    leader.communicate()


def test_members_are_of_this_session_only(family: tuple[subprocess.Popen[str], int, int]) -> None:
    leader, stubborn, detached = family
    found = {process.pid for process in session.members(Process.of(leader.pid))}
    assert found == {leader.pid, stubborn}
    assert os.getpid() not in found
    assert detached not in {process.pid for process in session.tree(psutil.Process(leader.pid), session=leader.pid)}


def test_the_session_is_found_after_its_leader_died(family: tuple[subprocess.Popen[str], int, int]) -> None:
    leader, stubborn, detached = family
    identity = Process.of(leader.pid)
    leader.kill()
    leader.wait()
    assert [process.pid for process in session.members(identity)] == [stubborn]
    assert session.end(session.members(identity), grace_s=0.5) == []
    assert session.members(identity) == []
    assert psutil.Process(detached).is_running(), "a detached driver is nobody's leftover"


def test_a_reused_number_is_left_alone(family: tuple[subprocess.Popen[str], int, int]) -> None:
    leader, *_ = family
    earlier = Process.of(leader.pid).model_copy(update={"created": time.time() - 1000})
    assert session.members(earlier) == []


# A server that forks a backend as PostgreSQL does: in a session of its own, with the listening socket still open.
SERVER = """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    os.setsid()
    print(server.getsockname()[1], flush=True)
time.sleep(60)
"""


def test_a_backend_that_was_just_forked_is_no_foreign_listener() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    [backend] = psutil.Process(server.pid).children()
    try:
        assert session.foreign_listener(port, Process.of(server.pid)) is None
        other = session.foreign_listener(port, Process.of(os.getppid()))
        assert other is not None
        assert other.pid in {server.pid, backend.pid}
    finally:
        backend.kill()
        server.kill()
        server.communicate()
