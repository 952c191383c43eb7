"""What backends share whose launches are rows of the registry: their jobs, their ends, and requests to a driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError
from lakeward.registry import launches
from lakeward.registry.drivers import Handle
from lakeward.registry.launches import LaunchRow
from lakeward.supervision.backends.base import Job, Known, Life
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

DUMP_S = 30.0
POLL_S = 1.0


def judged(
    rows: Sequence[LaunchRow], judge: Callable[[LaunchRow], Job], host: Callable[[Handle | None], str]
) -> list[Job]:
    """The job of each row. A row that cannot be judged is unknown, which is not dead, and stops no other."""
    jobs = []
    for row in rows:
        job = attempt(f"launch {row.id}", partial(judge, row))
        unknown = Job(row.driver, row.token, Life.UNKNOWN, row.handle, host(row.handle), row.log or "")
        jobs.append(unknown if isinstance(job, Failure) else job)
    return jobs


def keep_ends(connect: Connect, rows: Sequence[LaunchRow], jobs: Sequence[Job]) -> None:
    """Write the ends that only a cluster tells into the registry: clusters forget them."""
    ends = [(row, job) for row, job in zip(rows, jobs, strict=True) if row.exit is None and job.life is Life.GONE]
    if ends:
        with connect() as connection:
            for row, job in ends:
                launches.keep_exit(connection, row.id, dict(job.exit or {}))


def ended_when_asked(connect: Connect, job: Job, ended: Callable[[], bool]) -> bool:
    """Ask a driver in its row to end at a batch boundary; whether it `ended`. False if it could not be asked."""
    try:
        with connect() as connection:
            launches.request_end(connection, job.token)
        return ended()
    except LakewardError as error:
        log.warning("driver not asked to end", driver=job.driver, error=error.what, why=error.why)
        return False


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
