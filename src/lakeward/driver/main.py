"""Life of one launch: claim the driver, start Spark, run the control loop, record the exit."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.kubernetes import executor_pods
from lakeward.driver import executors, thread_dumps
from lakeward.driver.control import Control, DriverEnd
from lakeward.driver.core_time import CoreTime
from lakeward.driver.failing import Failures
from lakeward.driver.group_offsets import GroupOffsets
from lakeward.driver.jvm import Jvm
from lakeward.driver.lag import LagThread
from lakeward.driver.launch_row import LaunchReporter
from lakeward.driver.listener import listener_of
from lakeward.driver.recorder import Recorder
from lakeward.driver.registry_link import RegistryLink
from lakeward.driver.starting import QueryLauncher
from lakeward.driver.tasks import Tasks
from lakeward.engine import event_log, session
from lakeward.engine.batch import FinishedBatch
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.failures import EXIT_FENCED, classify, judge
from lakeward.platform.runtime import Launch
from lakeward.registry import drivers, generations
from lakeward.registry.leases import STREAM_TTL
from lakeward.registry.observations import Watch
from lakeward.supervision.backends.base import ExitRecord
from lakeward.supervision.report import late
from lakeward.telemetry import logs, tail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)

LOG, PRINTED, EXIT = "driver.log", "stdout.log", "exit.json"
GIVEN_PRINTED = "stderr"
"""Where a worker of a cluster puts what the JVM prints that it starts."""
JVM_S, STOP_S = 3.0, 30.0
"""How long to wait for a JVM that stopped answering to exit, and for Spark to stop."""
CLAIM_S = STREAM_TTL.total_seconds() + 5
"""How long to wait for the lease of a dead launch: a little longer than its time to live."""


def run(launch: Launch, reporter: LaunchReporter | None = None) -> int:
    """Run a driver until no stream is to run, it is asked to end, or it is fenced. Returns the exit code.

    Args:
        reporter: of a driver that a cluster started; its files cannot be read from outside.
    """
    launch.folder.mkdir(parents=True, exist_ok=True)
    logs.to_file(launch.folder / LOG)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # Lakeward logs an error in a batch itself, once
    _name_in_every_line(launch.driver)
    # py4j leaves its loopback sockets to the garbage collector; they cannot be closed here.
    warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
    if launch.runtime.pgpass is not None:
        os.environ.setdefault("PGPASSFILE", str(launch.runtime.pgpass))
    _log.info("driver started", pid=os.getpid(), python=sys.version.split()[0], folder=str(launch.folder))
    end = _guarded(launch, reporter)
    record = _exit_record(end)
    _write_exit(launch.folder / EXIT, record)
    _log.log(logging.INFO if end.code == 0 else logging.ERROR, "driver ended", exit_code=end.code, why=end.why)
    if reporter is not None:
        reporter.close(record)
    return end.code


def _name_in_every_line(driver: str) -> None:
    """Add the driver's name to the log lines of all threads; context variables would only affect this thread."""

    def named(_: Any, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
        fields.setdefault("driver", driver)
        return fields

    structlog.configure(processors=[named, *structlog.get_config()["processors"]])


def _guarded(launch: Launch, reporter: LaunchReporter | None) -> DriverEnd:
    try:
        return _run(launch, reporter)
    except Exception as error:  # noqa: BLE001  # named boundary: exit.json records every error
        if not isinstance(error, LakewardError):
            _log.exception("driver failed")
        if (
            reporter is not None
            and reporter.jvm_given
            and (died := _given_jvm(launch, reporter).death_reason(wait_s=JVM_S)) is not None
        ):
            # While Spark starts, a JVM that is killed is an error of a socket, which would count as a dependency.
            return DriverEnd(1, died, str(judge(text=died).failure_class))
        kind = classify(error=error, text=f"{type(error).__name__}: {error}")
        code = error.exit_code if isinstance(error, LakewardError) and error.exit_code in (2, EXIT_FENCED) else 1
        return DriverEnd(code, str(error), str(kind))


def _given_jvm(launch: Launch, reporter: LaunchReporter) -> Jvm:
    """The JVM that started this process, before there is a session: whether it lives."""
    return Jvm(None, launch.folder / GIVEN_PRINTED, lambda: "", parent_ended=reporter.is_orphan)


def _run(launch: Launch, reporter: LaunchReporter | None) -> DriverEnd:
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    url = launch.runtime.registry_url_file.read_text().strip()
    link = RegistryLink(launch, url, f"{socket.gethostname()}:{os.getpid()}")
    if not link.claim(CLAIM_S):
        why = "a newer launch of this driver exists, another process has this one, or its lease is held"
        return DriverEnd(EXIT_FENCED, why, "fenced")
    if reporter is not None:
        reporter.end = ending.set
        reporter.claimed()
        reporter.start()
    link.start()  # before Spark: the JVM takes longer to start than a lease lives
    began = time.monotonic()
    spark = session.start(launch)
    link.spark_ui = spark.sparkContext.uiWebUrl
    app_id = spark.sparkContext.applicationId
    _log.info("spark started", seconds=round(time.monotonic() - began, 1), ui=link.spark_ui, version=spark.version)
    from pyspark.util import InheritableThread

    recorder = Recorder(link.connect, launch.driver)
    sizing = executors.by_lag(
        spark, launch.conf, lambda words: recorder.event("driver", launch.driver, "executors", words)
    )
    group_offsets = GroupOffsets(
        lambda: control.positions(), lambda stream, kind, text: recorder.event("stream", stream, kind, text)
    )
    control: Control

    def report(done: FinishedBatch) -> None:
        control.lag_targets.landed(done.stream, dict(done.outcome.batch.end))
        group_offsets.refresh()
        if sizing is not None:
            sizing.landed(done.stream, done.consumed, done.duration_s)
        recorder.note_batch(done)

    def check_lease(stream: str) -> None:
        if not link.leased(stream):
            raise DependencyDown(
                f"Stream {stream} does not write without its lease",
                why="its sink keeps no position; only the lease prevents a second driver from writing the same rows",
                next="lakeward stack status   (the stream continues when the registry answers)",
                code="LW-2402",
            )

    def measured(stream: str, records: int | None, seconds: float | None) -> None:
        control.lag_targets.behind(stream, records, seconds)
        recorder.note(stream, lag_records=records, lag_s=seconds)

    def declared() -> dict[str, str] | None:
        with suppress(DependencyDown), link.connect() as connection:
            return drivers.checkpoints(connection)
        return None

    def quarantine_tables(stream: str) -> set[str] | None:
        with suppress(DependencyDown), link.connect() as connection:
            return generations.tables_of(connection, stream, "quarantine")
        return None

    def late_kept(stream: str, table: str) -> tuple[int, tuple[str, ...]] | None:
        with suppress(DependencyDown), link.connect() as connection:
            found = late.kept_in(connection, stream, table)
            return found.records, found.where
        return None

    unstarted = partial(executor_pods.unstarted, launch)
    starter = QueryLauncher(
        spark,
        launch.runtime,
        check_lease,
        report,
        lambda assignment: listener_of(assignment.stream, recorder, CoreTime(spark.sparkContext)),
        declared,
        quarantine_tables,
        late_kept,
        unstarted,
    )
    failures = Failures(launch.driver, link.connect, log=lambda stream: tail.newest(launch.folder, stream))
    jvm = Jvm.of(spark, launch.folder / PRINTED, spark_log=launch.folder / session.SPARK_LOG, unstarted=unstarted)
    if reporter is not None:
        if reporter.jvm_given:
            jvm = Jvm.of(spark, launch.folder / GIVEN_PRINTED, reporter.is_orphan)
        reporter.threads = lambda: thread_dumps.text(jvm)
    tasks = Tasks(lambda work: InheritableThread(target=work, session=spark))
    control = Control(starter, link, recorder, failures, jvm, launch.folder, tasks, ending, sizing=sizing)

    def watched(stream: str, found: Watch) -> None:
        found["app_id"] = app_id
        if "arriving_per_second" in found:
            control.lag_targets.arrives(stream, found["arriving_per_second"])
        least = found.get("at_least")
        if least is not None:
            control.lag_targets.behind(stream, least["records"])
        recorder.watch(stream, **found)

    lag = LagThread(control.watched, measured, watched, group_offsets.refresh)
    rotator = event_log.EventLogRotator(launch.folder)
    link.state = "running"
    for thread in (recorder, lag, group_offsets, rotator):
        thread.start()
    link.refresh()
    recorder.event("driver", launch.driver, "started", "driver started", pid=os.getpid(), spark_ui=link.spark_ui)
    end = DriverEnd(1, "the control loop ended without a reason")
    try:
        end = control.loop()
    except Exception as error:  # noqa: BLE001  # named boundary: exit.json records it
        # The JVM died, or this is a bug: this process must not write any more.
        died = jvm.death_reason(wait_s=JVM_S)
        if died is not None:
            end = control.jvm_died(died)
        else:
            _log.exception("control loop failed")
            with suppress(Exception):
                control.kill_all()
            end = DriverEnd(1, f"{type(error).__name__}: {error}", str(classify(error=error, text=str(error))))
    finally:
        link.state = "stopping"
        lag.close()
        group_offsets.close()
        rotator.close()
        cause = judge(text=end.why).cause if end.code else None
        recorder.event(
            "driver", launch.driver, "ended", f"driver ended: {end.why}", exit_code=end.code, cause=cause and str(cause)
        )
        recorder.close()
        link.close()
        _record_exit(launch, link, end)
        _stop(spark)
    return end


def _stop(spark: SparkSession) -> None:
    """Stop Spark within a limit: a hanging query can prevent it, and the process ends anyway."""

    def stop() -> None:
        with suppress(Exception):
            spark.stop()

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    stopping.join(STOP_S)


def _record_exit(launch: Launch, link: RegistryLink, end: DriverEnd) -> None:
    """Record the exit in the registry; while it is down, `exit.json` is the only record."""
    with suppress(DependencyDown), link.connect() as connection:
        drivers.exited(
            connection, launch.driver, launch.token, exit_code=end.code, error=None if end.code == 0 else end.why
        )


def _exit_record(end: DriverEnd) -> ExitRecord:
    cause = judge(text=end.why).cause if end.code else None
    return {
        "exit_code": end.code,
        "failure_class": end.failure_class,
        "cause": str(cause) if cause else None,
        "error": None if end.code == 0 else end.why,
        "stream": end.stream,
        "batch_id": end.batch_id,
        "offsets": end.offsets,
    }


def _write_exit(file: Path, record: ExitRecord) -> None:
    temporary = file.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(record, indent=2))
        temporary.replace(file)
    except OSError as error:  # e.g. a full disk: the registry has the exit already
        _log.error("exit.json not written", file=str(file), why=error.strerror)
