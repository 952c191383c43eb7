"""Identity of a process on this machine: boot id, pid and start time. A pid alone proves nothing.

Nobody can wait() for a detached driver: its parent is pid 1. So it is recognised by when it started, in which boot,
and it counts as gone when it is a zombie. Its children (the JVM) share its process group.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from lakeward.backends.base import Life

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
    stat = Path(f"/proc/{pid}/stat")
    try:
        # The name in parentheses may hold anything, blanks and parentheses too.
        return float(stat.read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError):
        pass
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def of(pid: int) -> dict[str, Any]:
    """The identity of a running process.

    Raises:
        ProcessLookupError: there is none.
    """
    started = start_ticks(pid)
    if started is None:
        raise ProcessLookupError(pid)
    return {"pid": pid, "start_time": started, "boot_id": boot_id(), "host": host()}


def life(handle: Mapping[str, Any]) -> Life:
    """What is left of a process and its group."""
    if handle.get("host") != host():
        return Life.UNKNOWN
    if handle["boot_id"] != boot_id():
        return Life.GONE  # the machine was started anew
    pid = int(handle["pid"])
    started = start_ticks(pid)
    if started is not None and abs(started - float(handle["start_time"])) > _SAME_START_S:
        return Life.GONE  # the pid belongs to another: Linux gives no pid away that is still a group's
    if started is not None and not _zombie(pid):
        return Life.ALIVE
    return Life.REMNANT if group(pid) else Life.GONE


def group(pid: int) -> list[int]:
    """The living members of the process group led by `pid`, the leader itself among them."""
    members = []
    for other in psutil.pids():
        try:
            if os.getpgid(other) == pid and not _zombie(other):
                members.append(other)
        except (ProcessLookupError, PermissionError):
            continue
    return members


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
