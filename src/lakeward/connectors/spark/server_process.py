"""The process of a Connect server on this machine: whether threads of it work on, and its end.

Java cannot stop a thread that plans, or matches a pattern, without end. It uses a core until the process ends; the
supervisor restarts a server that ended.
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
"""A thread that ran, or waited for its turn on a CPU, for this share of the time works: also on a busy machine."""
LOOK_S = 2.0
_NANO = 1e9
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
    """How many of the server's worker threads have work all the time, watched for so many seconds."""
    before, began = _used(process), time.monotonic()
    time.sleep(seconds)
    after, passed = _used(process), time.monotonic() - began
    return sum(after[each] - before[each] >= BUSY * passed for each in after.keys() & before.keys())


def end(process: psutil.Process) -> None:
    """End the server: by SIGTERM, and by SIGKILL if that takes long."""
    for stop in (process.terminate, process.kill):
        try:
            stop()
            process.wait(_STOP_S)
            return
        except psutil.TimeoutExpired:
            continue
        except psutil.Error:  # it has ended
            return


def _used(process: psutil.Process) -> dict[int, float]:
    """Seconds that each worker thread ran, or waited for its turn on a CPU, since its start; empty without Linux."""
    found = {}
    for task in Path(f"/proc/{process.pid}/task").glob("[0-9]*"):
        try:
            if (task / "comm").read_text().startswith(WORKERS):
                ran, waited, _ = (task / "schedstat").read_text().split()
                found[int(task.name)] = (int(ran) + int(waited)) / _NANO
        except (OSError, ValueError):  # the thread has ended
            continue
    return found
