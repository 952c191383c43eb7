"""What a driver that shares no folder with this machine is asked through its row of the registry."""

from __future__ import annotations

import time

import structlog

from lakeward.registry import launches
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

DUMP_S = 30.0
POLL_S = 1.0


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
