"""The driver's JVM: liveness, thread dumps, and the reason of its death."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.engine import executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUMP_S = 20.0
_TAIL_BYTES = 20_000
_COMMAND = "Launch Command:"
_EXIT_OUT_OF_MEMORY = 3  # of -XX:+ExitOnOutOfMemoryError


@dataclass(frozen=True)
class Jvm:
    """The JVM of one launch.

    Attributes:
        process: the gateway that pyspark started; None if another process started it.
        printed: file with its output.
        print_threads: returns a thread dump; may hang with the JVM.
        stopped: whether the Spark context has stopped. A fatal error of one thread stops it while the JVM runs on.
        starving: the reason if Spark has no executors; None if it has.
        spark_log: the file with Spark's own log; None if it is not kept.
        parent_ended: whether the JVM has ended that started this process, as it does on a cluster; None if none did.
    """

    process: subprocess.Popen[bytes] | None
    printed: Path
    print_threads: Callable[[], str]
    stopped: Callable[[], bool] = lambda: False
    starving: Callable[[], str | None] = lambda: None
    parent_ended: Callable[[], bool] | None = None
    spark_log: Path | None = None

    @classmethod
    def of(
        cls, spark: SparkSession, printed: Path, parent_ended: Callable[[], bool] | None = None,
        spark_log: Path | None = None, unstarted: executors.Unstarted = lambda: None,
    ) -> Jvm:  # fmt: skip
        """The JVM of a session. `unstarted`: returns why its cluster has not started an executor."""
        gateway = spark.sparkContext._gateway
        found = getattr(gateway, "proc", None)
        context = spark.sparkContext._jsc.sc()
        starving = executors.ExecutorStarvation.of(spark, unstarted)
        return cls(
            found, printed, lambda: _thread_print(gateway), lambda: _stopped(context),
            starving.why if starving is not None else lambda: None, parent_ended, spark_log,
        )  # fmt: skip

    def death_reason(self, wait_s: float = 0.0) -> str | None:
        """The reason why the JVM or its Spark context died; None while both live or if unknown."""
        code = None
        if self.process is not None:
            try:
                code = self.process.wait(wait_s) if wait_s else self.process.poll()
            except subprocess.TimeoutExpired:
                code = None
        if code is not None:
            return self._last_words(code)
        if self._parent_ends(wait_s):
            return self._last_words(None)
        return self._of_spark() if self.stopped() else self.starving()

    def threads(self) -> str:
        """A thread dump. A JVM that does not answer is asked by signal to print one to its own output."""
        found: list[str] = []

        def request() -> None:
            try:
                found.append(self.print_threads())
            except Exception as error:  # noqa: BLE001  # named boundary: a failed dump must not hide the failure
                found.append(f"Thread dump of the JVM failed: {type(error).__name__}: {error}\n")

        asking = threading.Thread(target=request, daemon=True)
        asking.start()
        asking.join(DUMP_S)
        if found:
            return found[0]
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        return f"The JVM did not answer within {DUMP_S:.0f} s; it was asked to print its threads to {self.printed}\n"

    def _parent_ends(self, wait_s: float) -> bool:
        if self.parent_ended is None:
            return False
        end = time.monotonic() + wait_s
        while not self.parent_ended():
            if time.monotonic() >= end:
                return False
            time.sleep(0.1)
        return True

    def _last_words(self, code: int | None) -> str:
        """The reason; `code` is None for a JVM that another process started, which alone knows its exit code."""
        tail = self._tail()
        memory = re.search(r".*OutOfMemoryError.*", tail)
        how = "ended" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code}"
        if code == _EXIT_OUT_OF_MEMORY or memory:
            reason = memory.group().strip()[:300] if memory else "OutOfMemoryError"
            return f"The driver ran out of memory: its JVM {how}: {reason}"
        return f"The driver lost its JVM: it {how}"

    def _of_spark(self) -> str:
        tail = self._tail()
        if self.spark_log is not None and (lost := executors.failures(_end_of(self.spark_log))):
            return f"The driver lost its JVM: Spark ended the application, because {lost}"
        thrown = re.findall(r'^Exception in thread "[^"]*" (.*)', tail, re.MULTILINE)
        causes = re.findall(r"^Caused by: (.*)", tail, re.MULTILINE)
        reason = "; ".join(words[-1].strip()[:300] for words in (thrown, causes) if words)
        return (
            f"The driver lost its JVM: it runs on, but its Spark context was stopped{f': {reason}' if reason else ''}"
        )

    def _tail(self) -> str:
        return without_command(_end_of(self.printed))


def _end_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def without_command(text: str) -> str:
    """The text without the line in which a worker repeats the JVM's command, whose options name errors."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(_COMMAND))


def _stopped(context: Any) -> bool:
    try:
        return bool(context.isStopped())
    except Exception:  # noqa: BLE001  # named boundary: any error of py4j when the JVM dies; its exit code is read
        return False


def _thread_print(gateway: Any) -> str:
    """A thread dump by Spark's own method, as in its UI: it also works without the tools of a JDK."""
    return "\n".join(str(thread.toString()) for thread in gateway.jvm.org.apache.spark.util.Utils.getThreadDump())
