"""Supervision on a starved machine: a dead driver comes back although nothing gets its turn. Real Airflow throughout.

The bounds are the promise itself: back within 5 minutes at a load of 40 and more on two cores.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry import incidents, streams

pytestmark = [pytest.mark.timeout(3600), pytest.mark.airflow]

LOAD = 40
"""Busy processes on two cores."""
BACK_S = 300.0
FROZEN_S = 120.0


@pytest.fixture(scope="module")
def landing(airflow: AirflowService) -> Iterator[AirflowService]:
    """A stream that lands, supervised by the passes of a real Airflow."""
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "starved")
    airflow.eventually(lambda: airflow.stream("starved").state == "healthy", 400, "the stream to be healthy")
    yield airflow
    with airflow.registry() as connection:
        streams.set_desired(connection, ["starved"], "stopped")


@contextmanager
def starved() -> Iterator[None]:
    """As many busy loops as make `LOAD` on two cores, and as many for each further one."""
    number = LOAD * max(1, (os.cpu_count() or 2) // 2)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        end = time.monotonic() + 600
        while os.getloadavg()[0] < number * 0.8 and time.monotonic() < end:
            time.sleep(5)
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def failed_passes(service: AirflowService, since: datetime) -> list[str]:
    return [
        run["dag_run_id"]
        for run in service.runs("streams_reconcile")
        if run["state"] == "failed" and datetime.fromisoformat(run["start_date"] or run["queued_at"]) > since
    ]


def kill(service: AirflowService, name: str, number: int) -> str:
    """Signal the driver's whole group; returns the token of that launch."""
    driver = service.driver(name)
    assert driver.handle is not None
    os.killpg(int(driver.handle["pid"]), number)
    return driver.token


@pytest.mark.campaign
def test_a_driver_killed_under_starvation_is_back_within_five_minutes(landing: AirflowService) -> None:
    since = datetime.now(UTC)
    with starved():
        for _ in range(2):  # the second death comes after the passes were slow for a while
            before = kill(landing, "starved", signal.SIGKILL)
            landing.eventually(
                lambda token=before: landing.driver("starved").token != token and landing.running("starved"),
                BACK_S, "a new launch under starvation",
            )  # fmt: skip
    killed = failed_passes(landing, since)
    assert len(killed) <= 1, f"passes were ended by a limit: {killed}"
    landing.eventually(lambda: landing.stream("starved").state == "healthy", 600, "the stream to be healthy")
    with landing.registry() as connection:
        assert ("reconcile", "streams") not in incidents.open_ones(connection), "supervision is back without a person"


@pytest.mark.campaign
def test_a_frozen_driver_is_replaced_within_two_minutes(landing: AirflowService) -> None:
    landing.eventually(lambda: landing.stream("starved").state == "healthy", 600, "the stream to be healthy")
    before = kill(landing, "starved", signal.SIGSTOP)
    landing.eventually(
        lambda: landing.driver("starved").token != before and landing.running("starved"), FROZEN_S, "its successor"
    )
