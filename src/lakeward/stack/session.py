"""Process session of a stack: all processes in its supervisor's session. `down` verifies that none remains."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from lakeward.stack.state import Process

GRACE_S = 5.0
_LOOPBACK = ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::")  # noqa: S104 - compared with, not bound
"""The addresses at which a listener answers on 127.0.0.1."""


def members(leader: Process) -> list[psutil.Process]:
    """The live processes of the session of `leader`, including the leader; drivers have their own sessions."""
    try:
        if abs(psutil.Process(leader.pid).create_time() - leader.created) >= 1:
            return []  # the pid was reused by another process
    except psutil.NoSuchProcess:
        pass  # the leader is dead; its session may have other processes
    live = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
            if (
                os.getsid(process.pid) == leader.pid
                and process.create_time() >= leader.created - 1
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                live.append(process)
    return live


def foreign_listener(port: int, leader: Process) -> psutil.Process | None:
    """The process outside the session that listens on a loopback port; None without one, or if the system hides it.

    A child of a member is not foreign: a backend that PostgreSQL has just forked holds the listening socket until it
    closes it, and is in a session of its own by then. psutil names only the last process that holds a socket.
    """
    with suppress(psutil.Error, OSError):  # macOS shows them to root only
        for link in psutil.net_connections(kind="tcp"):
            here = link.laddr and link.laddr.port == port and link.laddr.ip in _LOOPBACK
            if here and link.status == psutil.CONN_LISTEN and link.pid:
                listener = psutil.Process(link.pid)
                if leader.pid not in {os.getsid(listener.pid), os.getsid(listener.ppid())}:
                    return listener
    return None


def tree(root: psutil.Process, session: int | None = None) -> list[psutil.Process]:
    """A process and its descendants; with `session`, without descendants in other sessions, which outlive the stack.

    PostgreSQL's backends are in their own sessions too, but they are children of a member and end with it.
    """
    processes = [root]
    for child in root.children():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if session is None or os.getsid(child.pid) == session or _is_postgres(root):
                processes += tree(child, session)
    return processes


def end(processes: Iterable[psutil.Process], grace_s: float = GRACE_S) -> list[psutil.Process]:
    """SIGTERM, after `grace_s` SIGKILL. Returns the processes that are still alive."""
    remaining = list(processes)
    for process in remaining:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    remaining = _wait(remaining, grace_s)
    for process in remaining:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return _wait(remaining, grace_s)


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    # Not psutil.wait_procs: most are not children of this process, and pid 1 of a container may reap zombies late.
    deadline = time.monotonic() + seconds
    while (remaining := [process for process in processes if _lives(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return remaining


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_postgres(process: psutil.Process) -> bool:
    return str(process.name()).startswith("postgres")
