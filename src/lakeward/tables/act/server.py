"""Runs statements on the Connect server: with a timeout, retries on commit conflicts, and the server's CPU time."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from lakeward.connectors.spark.connect import endpoint
from lakeward.platform.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


OVERTAKEN = (
    "could not be found in the latest snapshot",  # rewrite_manifests: a commit merged a manifest it was replacing
    "CommitFailedException",
    # A rewrite does not know the partition spec, or the format version, of a commit that came since its read.
    'PartitionSpec.partitionType()" because the return value',
    "Must use DVs for position deletes in V3",
    "[DELTA_CONCURRENT_",  # files that an OPTIMIZE read were deleted, or their rows
    "[DELTA_METADATA_CHANGED",
    "[DELTA_PROTOCOL_CHANGED",
)
"""Texts of errors of Iceberg and Delta when another commit came between its read and its commit."""
PAUSES_S = (0.2, 0.5, 1.0, 2.0)


@dataclass
class Run:
    """The outcome of an action's statements.

    Attributes:
        returned: the rows the procedures returned.
        error: the first lines of a statement's error; empty without an error.
        timed_out, interrupted: whether it was stopped by its timeout, or by `stop`.
    """

    returned: list[dict[str, object]] = field(default_factory=list)
    error: str = ""
    timed_out: bool = False
    interrupted: bool = False


class Statements:
    """The statements of one action on one session.

    Tests subclass `execute` to intercept statements.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stopped = threading.Event()

    def execute(self, statement: str) -> list[dict[str, object]]:
        """Run one statement and return its rows."""
        rows = self._spark.sql(statement).collect()
        return [row.asDict(recursive=True) for row in rows]

    def stop(self) -> None:
        """Interrupt the running statement and start no more. May be called from another thread."""
        self._stopped.set()
        self._spark.interruptAll()

    def run(self, statements: list[str], limit_s: float) -> Run:
        """Run statements in order, up to the first that fails. Errors of the server are returned, not raised."""
        from grpc import RpcError
        from pyspark.errors import PySparkException

        outcome = Run()
        late = threading.Event()

        def expired() -> None:
            late.set()
            self.stop()

        clock = threading.Timer(limit_s, expired)
        clock.daemon = True
        clock.start()
        try:
            for statement in statements:
                if self._stopped.is_set():
                    break
                outcome.returned += self._against_writers(statement)
        except (PySparkException, RpcError) as error:
            outcome.error = plain(str(error))
        finally:
            clock.cancel()
        outcome.timed_out = late.is_set()
        outcome.interrupted = self._stopped.is_set() and not late.is_set()
        return outcome

    def _against_writers(self, statement: str) -> list[dict[str, object]]:
        """Run a statement, and retry it after a commit conflict, in which nothing was committed."""
        from pyspark.errors import PySparkException

        for pause in PAUSES_S:
            try:
                return self.execute(statement)
            except PySparkException as error:
                if not any(sign in str(error) for sign in OVERTAKEN) or self._stopped.wait(pause):
                    raise
        return self.execute(statement)


@contextmanager
def cpu_of_server(runtime: Runtime) -> Iterator[list[float]]:
    """Appends the CPU seconds of the server's process during the block to the list; nothing if the server is remote.

    The figure includes work of other sessions at the same time.
    """
    spent: list[float] = []
    process = _server(runtime)
    before = _cpu(process)
    yield spent
    after = _cpu(process)
    if before is not None and after is not None:
        spent.append(round(after - before, 3))


def _server(runtime: Runtime) -> psutil.Process | None:
    host, port = endpoint(runtime)
    if host != "localhost":
        return None
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return psutil.Process(connection.pid)
    except psutil.Error:
        return None  # no permission
    return None


def _cpu(process: psutil.Process | None) -> float | None:
    if process is None:
        return None
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def plain(text: str, most: int = 400) -> str:
    """The server's error without stack traces and without the failed task's name."""
    lines = [each.strip() for each in text.split("JVM stacktrace")[0].splitlines()]
    message = " ".join(each for each in lines if each and not each.startswith(("at ", "...")))
    if message.startswith(_NO_WORDS) and (causes := _CAUSE.findall(text)):
        message = f"internal error of Spark: {causes[-1]}"
    message = _TASK.sub("", message)
    return (f"the disk is full: {message}" if _FULL in message else message)[:most]


_NO_WORDS = ("[INTERNAL_ERROR]", "Exception thrown in awaitResult")
"""Beginnings of messages that say nothing of the cause; the first goes on with a request for a bug report."""
_CAUSE = re.compile(r"^\s*Caused by: (.*)$", re.MULTILINE)
_TASK = re.compile(r"^.*Job aborted due to stage failure: .*?Lost task [^:]*: ")
_FULL = "No space left on device"
