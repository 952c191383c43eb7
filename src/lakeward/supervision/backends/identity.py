"""Identity of a process on this machine: boot id, pid and start time. A pid alone proves nothing.

Nobody can wait() for a detached driver: its parent is pid 1. So it is recognised by when it started, in which boot,
and it counts as gone when it is a zombie. Its children (the JVM) share its process group.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from lakeward.supervision.backends.base import Life

_SAME_START_S = 0.05
"""Start times come from the same clock ticks; only the arithmetic of the boot time differs."""


def host() -> str:
    """This machine's name, as recorded with a driver."""
    return socket.gethostname()


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What tells one boot of this machine from the next."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text().strip() if file.exists() else str(int(psutil.boot_time()))


def start_ticks(pid: int) -> float | None:
    """When a process started: clock ticks since boot on Linux (untouched by changes of the wall clock), or None."""
    return _look(pid)[0]


def _look(pid: int) -> tuple[float | None, bool]:
    """When a process started (None: there is none), and whether it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  # asked a thousand times a pass: Path costs more
            # The name in parentheses may hold anything, blanks and parentheses too.
            fields = stat.read().rsplit(b")", 1)[1].split()
        return float(fields[19]), fields[0] in (b"Z", b"X", b"x")
    except (OSError, IndexError):
        pass
    try:
        process = psutil.Process(pid)
        return float(process.create_time()), _zombie(pid)
    except psutil.Error:
        return None, False


def of(pid: int) -> dict[str, Any]:
    """The identity of a running process.

    Raises:
        ProcessLookupError: there is none.
    """
    started = start_ticks(pid)
    if started is None:
        raise ProcessLookupError(pid)
    return {"pid": pid, "start_time": started, "boot_id": boot_id(), "host": host()}


def rebooted(handle: Mapping[str, Any]) -> bool:
    """Whether this machine was started anew since the process ran on it."""
    return handle.get("host") == host() and handle.get("boot_id", boot_id()) != boot_id()


def life(handle: Mapping[str, Any], groups: Callable[[], Mapping[int, Sequence[int]]] | None = None) -> Life:
    """What is left of a process and its group.

    Args:
        groups: gives the process groups of this machine, for who asks about many processes at once.
    """
    if handle.get("host") != host():
        return Life.UNKNOWN
    if rebooted(handle):
        return Life.GONE
    pid = int(handle["pid"])
    started, zombie = _look(pid)
    if started is not None and abs(started - float(handle["start_time"])) > _SAME_START_S:
        return Life.GONE  # the pid belongs to another: Linux gives no pid away that is still a group's
    if started is not None and not zombie:
        return Life.ALIVE
    members = groups().get(pid, ()) if groups is not None else _groups(only=pid).get(pid, ())
    return Life.REMNANT if any(not _zombie(member) for member in members) else Life.GONE


def group(pid: int) -> list[int]:
    """The living members of the process group led by `pid`, the leader itself among them."""
    return [member for member in _groups(only=pid).get(pid, ()) if not _zombie(member)]


def groups() -> Mapping[int, Sequence[int]]:
    """Every process group of this machine with its members, zombies too; read once, it serves many questions."""
    return _groups()


def _groups(only: int | None = None) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in psutil.pids():
        try:
            leader = os.getpgid(pid)
        except (ProcessLookupError, PermissionError):
            continue
        if only is None or leader == only:
            found.setdefault(leader, []).append(pid)
    return found


def signal_group(handle: Mapping[str, Any], number: int) -> bool:
    """Send a signal to what is left of a process, if it still is that process. False when nothing is left."""
    if life(handle) not in (Life.ALIVE, Life.REMNANT):
        return False
    try:
        os.killpg(int(handle["pid"]), number)
    except ProcessLookupError:
        return False
    return True


def signal_leader(handle: Mapping[str, Any], number: int) -> bool:
    """Send a signal to the process alone, if it still is that process."""
    if life(handle) is not Life.ALIVE:
        return False
    try:
        os.kill(int(handle["pid"]), number)
    except ProcessLookupError:
        return False
    return True


def _zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return True
