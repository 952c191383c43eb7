"""The whole life of one launch: claim, start Spark, run the control loop, say how it ended."""

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
from pathlib import Path
from typing import Any

import structlog

from lakeward.driver import session
from lakeward.driver.batch import Done
from lakeward.driver.control import Control, End
from lakeward.driver.failing import Failures
from lakeward.driver.lag import LagThread
from lakeward.driver.link import Link
from lakeward.driver.listener import listener_of
from lakeward.driver.recorder import Recorder
from lakeward.driver.starting import Starter
from lakeward.errors import DependencyDown, LakewardError
from lakeward.registry import drivers
from lakeward.registry.leases import STREAM_TTL
from lakeward.runtime import Launch
from lakeward.streams.failures import EXIT_FENCED, classify
from lakeward.telemetry import logs

_log = structlog.get_logger(__name__)

LOG, EXIT = "driver.log", "exit.json"
CLAIM_S = STREAM_TTL.total_seconds() + 5
"""A dead launch's lease lapses within its time to live; a little longer than that is waited for."""


def run(launch: Launch) -> int:
    """Run a driver until it has nothing to do, is told to end, or is fenced. Returns the exit code."""
    launch.folder.mkdir(parents=True, exist_ok=True)
    logs.to_file(launch.folder / LOG)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # an error in a batch is logged by us, once, as a sentence
    _name_in_every_line(launch.driver)
    # py4j leaves its loopback sockets to the garbage collector; nothing of ours can close them.
    warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
    if launch.runtime.pgpass is not None:
        os.environ.setdefault("PGPASSFILE", str(launch.runtime.pgpass))
    _log.info("driver starts", pid=os.getpid(), python=sys.version.split()[0], folder=str(launch.folder))
    end = _guarded(launch)
    _write_exit(launch.folder / EXIT, end)
    _log.log(logging.INFO if end.code == 0 else logging.ERROR, "driver ends", exit_code=end.code, why=end.why)
    return end.code


def _name_in_every_line(driver: str) -> None:
    """Every thread's log lines carry the driver's name; context variables would only reach this thread's."""

    def named(_: Any, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
        fields.setdefault("driver", driver)
        return fields

    structlog.configure(processors=[named, *structlog.get_config()["processors"]])


def _guarded(launch: Launch) -> End:
    try:
        return _run(launch)
    except Exception as error:  # noqa: BLE001  # named boundary: whatever it was, exit.json says it
        if not isinstance(error, LakewardError):
            _log.exception("driver failed")
        kind = classify(error=error, text=f"{type(error).__name__}: {error}")
        code = error.exit_code if isinstance(error, LakewardError) and error.exit_code in (2, EXIT_FENCED) else 1
        return End(code, str(error), str(kind))


def _run(launch: Launch) -> End:
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    url = launch.runtime.registry_url_file.read_text().strip()
    link = Link(launch, url, f"{socket.gethostname()}:{os.getpid()}")
    if not link.claim(CLAIM_S):
        return End(EXIT_FENCED, "a newer launch of this driver exists, or its lease is held", "fenced")
    link.start()  # before Spark: the JVM takes longer to start than a lease lives
    began = time.monotonic()
    spark = session.start(launch)
    link.spark_ui = spark.sparkContext.uiWebUrl
    _log.info("spark is up", seconds=round(time.monotonic() - began, 1), ui=link.spark_ui, version=spark.version)
    recorder = Recorder(link.connect, launch.driver)
    control: Control

    def report(done: Done) -> None:
        control.landed_up_to(done.stream, dict(done.outcome.batch.end))
        recorder.note_batch(done)

    def held(stream: str) -> None:
        if not link.leased(stream):
            raise DependencyDown(
                f"Stream {stream} does not write without its lease",
                why="its sink keeps no position; only the lease keeps a second driver from writing the same rows",
                next="lakeward stack status   (it goes on when the registry answers)",
            )

    starter = Starter(spark, launch.runtime, held, report, lambda wanted: listener_of(wanted.stream, recorder))
    control = Control(starter, link, recorder, Failures(launch.driver, link.connect), ending)
    lag = LagThread(
        control.watched, lambda stream, records, seconds: recorder.note(stream, lag_records=records, lag_s=seconds)
    )
    link.state = "running"
    recorder.start()
    lag.start()
    link.look_now()
    recorder.event("driver", launch.driver, "started", "driver started", pid=os.getpid(), spark_ui=link.spark_ui)
    end = End(1, "the control loop ended without a reason")
    try:
        end = control.loop()
    except Exception as error:  # noqa: BLE001  # named boundary: exit.json says what it was
        # The JVM is gone, or a mistake of ours: nothing of this process may go on writing.
        _log.exception("the control loop failed")
        with suppress(Exception):
            control.kill_all()
        end = End(1, f"{type(error).__name__}: {error}", str(classify(error=error, text=str(error))))
    finally:
        link.state = "stopping"
        lag.close()
        recorder.event("driver", launch.driver, "ended", f"driver ended: {end.why}", exit_code=end.code)
        recorder.close()
        link.close()
        _told(launch, link, end)
        with suppress(Exception):
            spark.stop()
    return end


def _told(launch: Launch, link: Link, end: End) -> None:
    """Tell the registry; while it is away, `exit.json` is what whoever looks will find."""
    with suppress(DependencyDown), link.connect() as connection:
        drivers.exited(
            connection, launch.driver, launch.token, exit_code=end.code, error=None if end.code == 0 else end.why
        )


def _write_exit(file: Path, end: End) -> None:
    document: dict[str, Any] = {
        "exit_code": end.code,
        "failure_class": end.failure_class,
        "error": None if end.code == 0 else end.why,
        "stream": end.stream,
        "batch_id": end.batch_id,
        "offsets": None,
    }
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=2))
    temporary.replace(file)
