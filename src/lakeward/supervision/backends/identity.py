"""Process identity on this machine: boot id, pid and start time. A pid alone is not unique over time.

A detached driver has pid 1 as its parent, so its starter cannot wait() for it. It is recognised by boot id and start
time, and counts as ended when it is a zombie. Its children (the JVM) share its process group.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from lakeward.registry.drivers import Handle
from lakeward.supervision.backends.base import Life

_SAME_START_S = 0.05
"""Start times come from the same clock ticks; only the arithmetic of the boot time differs."""


def host() -> str:
    """This machine's name, as recorded with a driver."""
    return socket.gethostname()


def deployment(address: str) -> str:
    """What labels and tags say about a registry: what other deployments have on the same cluster is not listed."""
    parts = urlsplit(address.strip())
    return hashlib.sha256(f"{parts.hostname}:{parts.port}{parts.path}".encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The id of the current boot of this machine."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text().strip() if file.exists() else str(int(psutil.boot_time()))


def start_ticks(pid: int) -> float | None:
    """When a process started: clock ticks since boot on Linux (independent of the wall clock), or None."""
    return _stat(pid)[0]


def _stat(pid: int) -> tuple[float | None, str]:
    """When a process started (None: no such process), and its status as psutil names it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  # called a thousand times a pass: Path costs more
            # The name in parentheses may contain anything, blanks and parentheses too.
            fields = stat.read().rsplit(b")", 1)[1].split()
        return float(fields[19]), _STATUS.get(fields[0], "")
    except (OSError, IndexError):
        pass
    try:
        process = psutil.Process(pid)
        return float(process.create_time()), str(process.status())
    except psutil.Error:
        return None, ""


_STATUS = {
    b"Z": psutil.STATUS_ZOMBIE, b"X": psutil.STATUS_DEAD, b"x": psutil.STATUS_DEAD, b"T": psutil.STATUS_STOPPED,
}  # fmt: skip
"""Those of Linux that matter here."""
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def of(pid: int) -> Handle:
    """The identity of a running process.

    Raises:
        ProcessLookupError: no such process.
    """
    started = start_ticks(pid)
    if started is None:
        raise ProcessLookupError(pid)
    return {"pid": pid, "start_time": started, "boot_id": boot_id(), "host": host()}


def rebooted(handle: Handle) -> bool:
    """Whether this machine was rebooted since the process ran on it."""
    return handle.get("host") == host() and handle.get("boot_id", boot_id()) != boot_id()


def life(handle: Handle, groups: Callable[[], Mapping[int, Sequence[int]]] | None = None) -> Life:
    """What is left of a process and its group.

    Args:
        groups: returns the process groups of this machine, for callers that check many processes.
    """
    if handle.get("host") != host():
        return Life.UNKNOWN
    if rebooted(handle):
        return Life.GONE
    pid = int(handle["pid"])
    started, status = _stat(pid)
    if started is not None and abs(started - float(handle["start_time"])) > _SAME_START_S:
        return Life.GONE  # the pid was reused: Linux does not reuse a pid while it is a process group's id
    if started is not None and status not in _ENDED:
        return Life.ALIVE
    members = groups().get(pid, ()) if groups is not None else _groups(only=pid).get(pid, ())
    return Life.REMNANT if any(not _zombie(member) for member in members) else Life.GONE


def group(pid: int) -> list[int]:
    """The living members of the process group led by `pid`, the leader itself among them."""
    return [member for member in _groups(only=pid).get(pid, ()) if not _zombie(member)]


def groups() -> Mapping[int, Sequence[int]]:
    """Every process group of this machine with its members, zombies included."""
    return _groups()


def _groups(only: int | None = None) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for pid in psutil.pids():
        try:
            leader = os.getpgid(pid)
        except (ProcessLookupError, PermissionError):
            continue
        if only is None or leader == only:
            members.setdefault(leader, []).append(pid)
    return members


def stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal. Not by a debugger, which continues it."""
    return bool(_stat(pid)[1] == psutil.STATUS_STOPPED)


def signal_group(handle: Handle, number: int) -> bool:
    """Send a signal to the group of a process, if it is still that process. False if nothing remains."""
    if life(handle) not in (Life.ALIVE, Life.REMNANT):
        return False
    try:
        os.killpg(int(handle["pid"]), number)
    except ProcessLookupError:
        return False
    return True


def signal_leader(handle: Handle, number: int) -> bool:
    """Send a signal to the process alone, if it is still that process."""
    if life(handle) is not Life.ALIVE:
        return False
    try:
        os.kill(int(handle["pid"]), number)
    except ProcessLookupError:
        return False
    return True


def _zombie(pid: int) -> bool:
    started, status = _stat(pid)
    return started is None or status in _ENDED
