"""The resident checker: it serves runs; killed, paused, hung or told to stop, a run is answered once all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
import pytest
from log_lines import line
from sqlalchemy import select

from lakeward.connectors.spark.connect import session
from lakeward.platform.errors import TimedOut
from lakeward.platform.runtime import Home, Project
from lakeward.quality import check
from lakeward.quality.publishing import record
from lakeward.quality.publishing.verified import Move
from lakeward.quality.ranges.range import decide
from lakeward.quality.results.records import Result
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import IcebergTable
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.request import place
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.registry import check_runs, checkers, verifications
from lakeward.registry.check_runs import Fenced
from lakeward.registry.schema import check_runs as rows
from lakeward.spec.read.loader import load_project

TTL = timedelta(seconds=4)
QUICK = "{type: expect_volume_as_usual}"
"""A check that needs neither Great Expectations nor Spark."""
SLOW = (
    "{type: unexpected_rows_expectation, severity: critical, on_fail: hold, kwargs: {unexpected_rows_query: "
    "\"SELECT * FROM {batch} WHERE java_method('java.lang.Thread', 'sleep', cast(id * 0 + 60000 AS BIGINT)) = 'x'\"}}"
)
"""Sleeps a minute for every row: long, interruptible, and at no cost."""
PROGRAM = f"""
import signal
from datetime import timedelta
from lakeward.quality.resident import serve
from lakeward.quality.resident.serve import Resident
from lakeward.platform.runtime import Home, Project

serve.WARM_AFTER_S = 1e9  # on a busy machine that takes longer than an asker waits
resident = Resident(Home.locate(), Project.locate(), ttl=timedelta(seconds={TTL.total_seconds()}), grace_s=1)
signal.signal(signal.SIGTERM, resident.stop)
resident.serve()
"""


def until(so: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    end = monotonic() + seconds
    while not (found := so()):
        assert monotonic() < end, f"waited {seconds:g} s for {what}"
        sleep(0.1)
    return found


@dataclass
class Resident:
    """A checker of a table's project, and somebody who asks for runs of the table."""

    table: Any
    process: subprocess.Popen[str]
    log: Path
    told: list[str] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def check(self, timeout_s: float = 240) -> list[dict[str, Any]]:
        """Ask as the command line and Airflow do."""
        self.told.clear()
        return check(
            self.table.runtime, self.table.url, self.table.project, [self.table.name],
            timeout_s=timeout_s, emit=lambda level, event, fields: self.told.append(line(event, fields)),
        )  # fmt: skip

    def begun(self, work: Callable[[], bool] = lambda: True) -> Future[list[dict[str, Any]]]:
        """Ask for a run, and come back when the checker is in the middle of it."""
        before = self.run["id"] if self.run else 0
        asked = self.pool.submit(self.check)
        until(lambda: self.run and self.run["id"] > before and self.run["state"] == "working" and work(), "its begin")
        return asked

    @property
    def run(self) -> dict[str, Any] | None:
        """The newest run asked for."""
        with self.table.registry() as connection:
            row = connection.execute(select(rows).order_by(rows.c.id.desc()).limit(1)).one_or_none()
        return None if row is None else dict(row._mapping)

    @property
    def recorded(self) -> list[str]:
        """The verdicts of the table, newest first."""
        with self.table.registry() as connection:
            return [each["verdict"] for each in verifications.newest(connection, self.table.name)]

    @property
    def worker(self) -> psutil.Process:
        """Its checking process."""
        (found,) = psutil.Process(self.process.pid).children()
        return found


@pytest.fixture
def resident(table: Any, tmp_path: Path) -> Iterator[Resident]:
    """A checker that is up; nothing of it is left at the end."""
    home = Home(tmp_path / "home")
    home.secrets.mkdir(parents=True)
    home.runtime_file.write_text(table.runtime.model_dump_json())
    environment = {
        **os.environ, "LAKEWARD_HOME": str(home.root), "LAKEWARD_PROJECT": str(table.project),
        "LAKEWARD_REGISTRY_URL_FILE": str(table.runtime.registry_url_file),
    }  # fmt: skip
    log = tmp_path / "checker.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdout=sink, stderr=sink, text=True
        )
    made = Resident(table, process, log)
    try:
        until(lambda: process.poll() is None and alive(made), "the checker to be up")
        yield made
    except BaseException as error:
        error.add_note(log.read_text(errors="replace")[-3000:])
        raise
    finally:
        made.pool.shutdown()
        if process.poll() is None:
            left = psutil.Process(process.pid).children()
            process.kill()
            process.wait()
            for each in left:  # one that a failed test has paused does not end by itself
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def alive(resident: Resident) -> bool:
    with resident.table.registry() as connection:
        return checkers.alive(connection, place(resident.table.project, resident.table.runtime.lake))


def test_it_serves_runs_outlives_a_hung_one_and_a_zombie_of_it_keeps_nothing(resident: Resident) -> None:
    from pyspark.errors import PySparkException

    table = resident.table
    # Served, twice by one process; the suite is read again.
    table.append()
    (first,) = resident.check()
    assert (first["verdict"], table.verified) == ("pass", table.head)
    assert not any("process of its own" in each for each in resident.told)
    assert any("checks=2" in each for each in resident.told), "what the run tells reaches the asker"
    worker = resident.worker.pid
    bad = table.append(bad=2)
    table.suite("{type: expect_column_values_to_not_be_null, kwargs: {column: carrier}, severity: warning}")
    (second,) = resident.check()
    assert (second["verdict"], second["first_bad_snapshot"]) == ("warn", bad)
    assert resident.worker.pid == worker
    line = " ".join(psutil.Process(resident.process.pid).cmdline() + resident.worker.cmdline())
    assert "token" not in line and "postgresql://" not in line

    # Hung: its time over, the run is an error of its own, and the checker goes on.
    table.append()
    table.suite(SLOW)
    with pytest.raises(TimedOut):
        resident.check(timeout_s=6)
    assert resident.run is not None and resident.run["state"] == "timed_out"
    table.suite(QUICK)
    (third,) = resident.check()
    assert third["verdict"] == "pass" and resident.run["owner"].startswith("checker ")
    assert table.verified == table.head
    kept = len(resident.recorded)

    # Paused in the middle, and awake again when another has taken its run over.
    head = table.append()
    table.suite(SLOW)
    asked = resident.begun(lambda: bool(resident.run and resident.run["session_id"]))
    sleep(3)  # it is in the statement, or before it: either way what follows must hold
    paused = [resident.worker, psutil.Process(resident.process.pid)]
    for each in paused:
        each.suspend()
    table.suite(QUICK)
    left = resident.run["session_id"]
    (taken,) = asked.result(120)
    assert any("died during this run" in each for each in resident.told)
    assert (taken["verdict"], table.verified) == ("pass", head)
    with session(table.runtime, session_id=left) as its, pytest.raises(PySparkException, match="SESSION_CLOSED"):
        its.sql("SELECT 1").collect()  # it cannot move a branch any more
    assert len(resident.recorded) == kept + 1
    zombie = paused[0]
    for each in paused:
        each.resume()
    until(lambda: not zombie.is_running() or zombie.status() == psutil.STATUS_ZOMBIE, "the zombie to end")
    assert len(resident.recorded) == kept + 1, "one run, one result"
    assert (resident.recorded[0], table.verified) == ("pass", head)
    assert resident.run["claim"] == 2 and resident.run["answer"]["results"][0]["run"] == taken["run"]
    until(lambda: "taken over" in resident.log.read_text(), "the checker to go on")
    until(lambda: alive(resident), "its sign of life: without one whoever asks works by himself")

    # Told to stop in the middle: the run is given back, and nothing of the checker is left.
    table.append()
    table.suite(SLOW)
    asked = resident.begun(lambda: bool(resident.run and resident.run["session_id"]))
    left = [resident.worker, psutil.Process(resident.process.pid)]
    table.suite(QUICK)
    resident.process.send_signal(signal.SIGTERM)
    assert resident.process.wait(60) == 0
    (given,) = asked.result(120)
    assert (given["verdict"], table.verified) == ("pass", table.head)
    assert not any(each.is_running() for each in left)
    assert not alive(resident)


@pytest.mark.campaign(held_by="test_it_serves_runs_outlives_a_hung_one_and_a_zombie_of_it_keeps_nothing")
def test_a_killed_checkers_run_is_taken_over_and_nothing_of_it_is_left(resident: Resident) -> None:
    table = resident.table
    table.append()
    table.suite(SLOW)
    asked = resident.begun(lambda: bool(psutil.Process(resident.process.pid).children()))
    worker = resident.worker
    table.suite(QUICK)
    resident.process.kill()
    resident.process.wait()
    (taken,) = asked.result(120)
    assert any("died during this run" in each for each in resident.told), (resident.told, resident.run)
    assert (taken["verdict"], table.verified) == ("pass", table.head)
    until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "its process to end")
    assert resident.recorded == ["pass"]


def test_a_fenced_process_neither_keeps_a_result_nor_moves_the_branch(table: Any) -> None:
    table.append()
    suite = next(iter(load_project(Project(table.project)).suites.values()))
    order = RunOrder({table.name: suite})
    found = decide(table.history, [])
    with table.registry() as connection:
        run = check_runs.ask(
            connection, "here", {}, asked_by="tests", timeout=timedelta(minutes=5), wait=timedelta(minutes=5)
        )
        one = check_runs.claim(connection, "paused", timedelta(seconds=-1), place="here")
        assert one is not None and one.claim.run == run
    engines = Engines(table.runtime, table.url, lambda own_id: table.spark, claim=one.claim)
    of = IcebergTable(table.name, engines.lake)
    result = Result(
        "r-paused", order.now, table.name, suite.digest, "increment", found, Verdict.PASS, verified=None
    )  # fmt: skip
    with table.registry() as connection:
        two = check_runs.claim(connection, "awake", timedelta(minutes=5), place="here")
    assert two is not None
    with pytest.raises(Fenced):
        record.record_and_publish(result, of, order, engines)
    with table.registry() as connection:
        assert verifications.newest(connection, table.name) == []
    with pytest.raises(Fenced):  # it had kept its result before it was paused
        record._moved(of, engines, lambda now: Move(table.head, "late"))
    assert table.verified is None
    engines.begin(two.claim)
    assert record.record_and_publish(result, of, order, engines).verified == table.head
    assert table.verified == table.head


# Great Expectations imports a module that Python calls deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_warm_process_has_its_session_and_great_expectations(table) -> None:
    engines = Engines(table.runtime, table.url, lambda own_id: table.spark)
    engines.warm()
    assert {"session", "checker"} <= engines.__dict__.keys()
