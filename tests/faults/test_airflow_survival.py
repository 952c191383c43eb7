"""A driver launched by an Airflow task outlives everything that can happen to Airflow. Real components throughout."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import airflow_service
import psutil
import pytest
from airflow_service import AirflowService

from lakeward.registry import operations, restarts, streams
from lakeward.registry.drivers import Driver

pytestmark = [pytest.mark.timeout(900), pytest.mark.airflow]


@pytest.fixture(scope="module")
def survivor(airflow: AirflowService) -> Iterator[AirflowService]:
    """A driver that an Airflow task launched."""
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "survivor")
    airflow.eventually(lambda: airflow.running("survivor"), 400, "the driver to be launched")
    airflow.eventually(lambda: airflow.stream("survivor").state == "healthy", 400, "the stream to be healthy")
    yield airflow
    if "airflow-scheduler" not in airflow.processes:
        airflow.start()
    with airflow.registry() as connection:
        streams.set_desired(connection, ["survivor"], "stopped")


def untouched(service: AirflowService, before: Driver) -> None:
    """The same process, the same launch, no failure, and it lands on."""
    after = service.driver(before.name)
    assert (after.token, after.handle) == (before.token, before.handle)
    assert service.running(before.name)
    with service.registry() as connection:
        assert (before.name, None) not in restarts.newest(connection)
    beat = after.heartbeat
    service.eventually(lambda: service.driver(before.name).heartbeat > beat, 30, "a sign of life")


def test_it_survives_the_end_of_its_task(survivor: AirflowService) -> None:
    driver = survivor.driver("survivor")
    assert driver.handle is not None
    process = psutil.Process(driver.handle["pid"])
    assert process.ppid() in (1, os.getpid()) or "airflow" not in " ".join(process.parent().cmdline())
    assert os.getsid(process.pid) == process.pid
    untouched(survivor, driver)


@pytest.mark.campaign
def test_it_survives_the_kill_of_its_operation(airflow: AirflowService) -> None:
    """Mark-failed kills the whole process group of the task that launched it."""
    (airflow.runtime.drivers / "mode").write_text("quiet")  # no batch lands, so the operation goes on waiting
    try:
        with airflow.registry() as connection:
            airflow_service.deploy(connection, "marked", desired="stopped")
        run = airflow.trigger("stream__marked", op="start")
        airflow.eventually(lambda: airflow.running("marked"), 400, "the operation to launch the driver")
        driver = airflow.driver("marked")
        path = f"/dags/stream__marked/dagRuns/{run}/taskInstances/operate"
        pid = airflow.call("GET", path).json()["pid"]
        assert airflow.call("PATCH", path, json={"new_state": "failed"}).status_code == 200
        airflow.eventually(lambda: not psutil.pid_exists(pid) or _ended(pid), 400, "the task to be killed")
        untouched(airflow, driver)
    finally:
        (airflow.runtime.drivers / "mode").write_text("calm")
        with airflow.registry() as connection:
            streams.set_desired(connection, ["marked"], "stopped")
            assert operations.newest(connection, "marked")[0].operation == "start"


@pytest.mark.campaign
def test_it_survives_the_sigkill_of_the_scheduler(survivor: AirflowService) -> None:
    driver = survivor.driver("survivor")
    since = datetime.now(UTC)
    session = survivor.processes["airflow-scheduler"].pid
    survivor.stop("airflow-scheduler", how=signal.SIGKILL)
    survivor.sweep(session)
    untouched(survivor, driver)
    survivor.start("airflow-scheduler")
    _one_more_pass(survivor, since)
    untouched(survivor, driver)


@pytest.mark.campaign
def test_it_survives_a_restart_of_all_of_airflow(survivor: AirflowService) -> None:
    driver = survivor.driver("survivor")
    since = datetime.now(UTC)
    survivor.stop()
    untouched(survivor, driver)
    survivor.start()
    _one_more_pass(survivor, since)
    untouched(survivor, driver)


def _one_more_pass(service: AirflowService, since: datetime) -> None:
    """A pass that began after `since` has ended well."""

    def passed() -> bool:
        return any(
            run["state"] == "success" and datetime.fromisoformat(run["start_date"]) > since
            for run in service.runs("streams_reconcile")[:5]
        )

    service.eventually(passed, 400, "another pass")


def _ended(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True
