"""The process of a Connect server on this machine: whether threads of it work on, and its end.

Java cannot stop a thread that plans, or matches a pattern, without end. It uses a core until the process ends; the
supervisor starts a server that ended anew.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from lakeward.connectors.spark.connect import endpoint
from lakeward.connectors.spark.connect_server import MAIN
from lakeward.platform.runtime import Runtime

WORKERS = ("SparkConnectExe", "Executor task l")
"""Names of the threads that plan statements and run tasks, as Linux has them: their first 15 characters."""
BUSY = 0.7
"""A thread that used this share of a CPU, all the time that it was watched, works."""
LOOK_S = 4.0
_LOOKS = 4
_STOP_S = 15.0


def find(runtime: Runtime) -> psutil.Process | None:
    """The server's process; None if it is not on this machine, or belongs to somebody else."""
    host, port = endpoint(runtime)
    if host != "localhost":
        return None
    try:
        for link in psutil.net_connections("tcp"):
            if link.status == psutil.CONN_LISTEN and link.laddr and link.laddr.port == port and link.pid:
                process = psutil.Process(link.pid)
                return process if any(MAIN in each for each in process.cmdline()) else None
    except psutil.Error:
        return None
    return None


def working(process: psutil.Process, seconds: float = LOOK_S) -> int:
    """How many of the server's worker threads use a CPU now, watched for so many seconds.

    A machine that is busy with other things gives them less: a thread counts if it got its share in any part of the
    time and never rested.
    """
    pause = seconds / _LOOKS
    looks = [_used(process)]
    for _ in range(_LOOKS):
        time.sleep(pause)
        looks.append(_used(process))
    found = 0
    for thread in set.intersection(*(set(each) for each in looks)):
        used = [after[thread] - before[thread] for before, after in zip(looks, looks[1:], strict=False)]
        found += min(used) > 0 and max(used) >= BUSY * pause / 2
    return found


def end(process: psutil.Process) -> None:
    """End the server: by SIGTERM, and by SIGKILL if that takes long."""
    try:
        process.terminate()
        process.wait(_STOP_S)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(_STOP_S)
    except psutil.NoSuchProcess:
        return


def _used(process: psutil.Process) -> dict[int, float]:
    """CPU seconds of each worker thread."""
    found = {}
    try:
        for thread in process.threads():
            try:
                name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip()
            except OSError:  # it has ended, or this is not Linux
                continue
            if name.startswith(WORKERS):
                found[thread.id] = thread.user_time + thread.system_time
    except psutil.Error:
        return {}
    return found
