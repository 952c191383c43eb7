"""What backends share whose launches are rows of the registry: launches without a row, and requests to a driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from lakeward.registry import launches
from lakeward.registry.drivers import Handle
from lakeward.supervision.backends.base import Job, Known, Life
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

DUMP_S = 30.0
POLL_S = 1.0


def with_unrecorded(jobs: Sequence[Job], known: Sequence[Known], host: Callable[[Handle], str]) -> list[Job]:
    """The jobs that are somewhere, and those that the registry's drivers name and that have no row.

    A launch without a handle is not a process: its starter is about to submit it, or has died.
    """
    seen = {(job.driver, job.token) for job in jobs}
    lost = "the registry has no record of its launch"
    unrecorded = [
        Job(item.driver, item.token, Life.UNKNOWN, item.handle, host(item.handle), "", lost=lost)
        for item in known
        if (item.driver, item.token) not in seen
    ]
    return [job for job in (*jobs, *unrecorded) if job.handle is not None]


def thread_dump(connect: Connect, job: Job) -> str | None:
    """Ask for a thread dump, which the driver writes into its row; None if it does not. Never raises."""
    try:
        if job.waits or job.life is not Life.ALIVE:
            return None
        with connect() as connection:
            requested = launches.request_dump(connection, job.token)
        end = time.monotonic() + DUMP_S
        while time.monotonic() < end:
            with connect() as connection:
                if launches.dumped(connection, job.token, requested):
                    return "in the registry, `lakeward streams threads` of a stream of it shows it"
            time.sleep(POLL_S)
    except Exception as error:  # noqa: BLE001  # named boundary: a failed dump must not keep a hung driver alive
        log.warning("no thread dump", driver=job.driver, error=f"{type(error).__name__}: {error}")
    return None
