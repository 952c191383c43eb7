"""The checking process as a child process, and the pipe to it.

It has a clean environment and inherits only a pipe. When this end closes, however the requesting process ends, it
interrupts its statements on the connect server and exits.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from threading import Event, Lock, Timer
from typing import IO, TYPE_CHECKING, Self, cast

import psutil

from lakeward.platform.errors import LakewardError, TimedOut, expect
from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.request import Request, raise_line
from lakeward.registry.check_runs import Answer

if TYPE_CHECKING:
    from lakeward.quality.results.records import RunDocument

TIMEOUT_S = 1800.0
_GRACE_S = 20.0
_TAIL = 2000  # characters of the process's stderr shown when it dies
Emit = Callable[[str, str, Mapping[str, object]], None]
"""Receives level, text and fields of one event."""


class Ended(LakewardError):
    """Raised when the checking process ended without an answer: killed, out of memory, or its pipe closed."""


def environment(runtime: Runtime) -> dict[str, str]:
    """The environment of the checking process: no secrets, and settings for its libraries."""
    allowed = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    passwords = runtime.pgpass or os.environ.get("PGPASSFILE")
    if passwords:
        allowed["PGPASSFILE"] = str(passwords)
    return allowed | {
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONUNBUFFERED": "1",
        "TZ": "UTC",
        # Without it `pyspark.sql.functions`, which GX uses, looks for a JVM in the process.
        "SPARK_CONNECT_MODE_ENABLED": "1",
    }


class CheckingProcess:
    """A process that runs checks; Great Expectations and its session stay warm between requests."""

    def __init__(self, runtime: Runtime) -> None:
        self._turn = Lock()
        self._noise: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lakeward.quality"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            text=True,
            errors="replace",
            env=environment(runtime),
            cwd="/",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def rss(self) -> int:
        """Its resident memory in bytes; 0 after it ended."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def ask(self, request: Request, *, timeout_s: float = TIMEOUT_S, emit: Emit) -> list[RunDocument]:
        """The results of one request; events are passed to `emit` as they arrive. Concurrent calls wait.

        Raises:
            LakewardError: as for `runs.ask.check`.
        """
        late = Event()

        def give_up() -> None:
            late.set()
            self.hang_up()

        timer = Timer(timeout_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            with self._turn:
                answer = self._answer(request, emit)
        finally:
            timer.cancel()
        if answer is None and late.is_set():
            raise TimedOut(
                "The check run timed out",
                why=f"It was ended after {timeout_s:g} s; its statements on the connect server were interrupted.",
                next="lakeward stack status   then: lakeward quality run TABLE",
                code="LW-5016",
            )
        if answer is None:
            raise Ended(
                "The checking process ended without an answer",
                why=self._last_words(),
                next="lakeward doctor",
                code="LW-5017",
            )
        if "failed" in answer:
            raise_line(answer["failed"])
        return cast("list[RunDocument]", answer["results"])

    def close(self) -> None:
        """End the process. No statement of it remains on the connect server."""
        self.hang_up()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._noise.close()

    def hang_up(self) -> None:
        """Close the pipe, so that the process interrupts its statements and exits; kill it if it hangs."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, request: Request, emit: Emit) -> Answer | None:
        stdin = expect(self._process.stdin, "the pipe to the process")
        stdout = expect(self._process.stdout, "the pipe from the process")
        with contextlib.suppress(BrokenPipeError, ValueError):  # it ended: stdout is at its end too
            stdin.write(request.model_dump_json() + "\n")
            stdin.flush()
        for line in stdout:
            event: dict[str, object] = json.loads(line)
            if "results" in event or "failed" in event:
                return cast("Answer", event)
            emit(str(event.pop("level", "info")), str(event.pop("event", "")), event)
        return None

    def _last_words(self) -> str:
        code = self._process.wait()
        self._noise.seek(0)
        return f"exit code {code}: {self._noise.read()[-_TAIL:].strip() or 'no output'}"
