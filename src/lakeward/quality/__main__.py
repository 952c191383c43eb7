"""The checking process: `python -m lakeward.quality`. Requests on stdin, events and answers on stdout, as JSON lines.

Great Expectations and the Spark session stay warm between requests. The process ends with its caller: when stdin closes
during a run, it interrupts its statements on the connect server and exits.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import threading
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, TextIO

import structlog

from lakeward.connectors.spark.connect import interrupt, session
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.quality.results.text import log_result
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.request import Request, error_line
from lakeward.quality.runs.run import run
from lakeward.quality.suite.project import order
from lakeward.registry.check_runs import Answer

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from lakeward.platform.runtime import Runtime

log = structlog.get_logger(__name__)


class Worker:
    """Answers requests in order until stdin closes."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._requests: SimpleQueue[str | None] = SimpleQueue()
        self._working = threading.Event()
        self._sessions: list[SparkSession] = []
        self._engines: dict[tuple[str, str], Engines] = {}

    def serve(self, answers: TextIO) -> None:
        """Answer requests until stdin closes."""
        threading.Thread(target=self._listen, daemon=True).start()
        while (line := self._requests.get()) is not None:
            answer = json.dumps(self._answer(line))
            self._working.clear()
            answers.write(answer + "\n")
            answers.flush()

    def _answer(self, line: str) -> Answer:
        request = Request.model_validate_json(line)
        try:
            engines = self._engines_of(request)
            if request.warm:
                _warm(engines)
                return {"results": []}
            _end(request)
            results = run(order(request), engines)
        except LakewardError as error:
            return error_line(error)
        for result in results:
            log_result(result)
        return {"results": [result.document() for result in results]}

    def _engines_of(self, request: Request) -> Engines:
        key = (request.runtime.model_dump_json(), request.registry_url)
        if key not in self._engines:
            self._engines[key] = Engines(
                request.runtime, request.registry_url, lambda own_id: self._session(request.runtime, own_id)
            )
        self._engines[key].begin(request.claim)
        return self._engines[key]

    def _session(self, runtime: Runtime, own_id: str) -> SparkSession:
        made = self._held.enter_context(session(runtime, session_id=own_id))
        self._sessions.append(made)
        return made

    def _listen(self) -> None:
        for line in sys.stdin:
            self._working.set()
            self._requests.put(line)
        if not self._working.is_set():
            self._requests.put(None)
            return
        for open_session in self._sessions:
            try:
                open_session.interruptAll()
                open_session.stop()
            except Exception:  # noqa: BLE001, S110 - ending: the server drops the session by its own timeout
                pass
        os._exit(75)


def _warm(engines: Engines) -> None:
    """Import what runs need and open a session. Without a server the next run reports the error."""
    importlib.import_module("great_expectations")
    with suppress(DependencyDown):
        engines.warm()


def _end(request: Request) -> None:
    """Interrupt what an earlier claim left running on the connect server, so that it cannot move a branch either."""
    if request.left is None:
        return
    try:
        stopped = interrupt(request.runtime, request.left)
    except DependencyDown:  # no server, so no statement is running
        return
    log.info("Interrupted statements of an earlier claim", statements=len(stopped), session_id=request.left)


def main() -> int:
    """Entry point. Returns 0; the results of the checks are in the answers."""
    answers = _private_stdout()
    _log_to(answers)
    with ExitStack() as held:
        Worker(held).serve(answers)
    return 0


def _private_stdout() -> TextIO:
    """Reserve stdout for JSON lines: output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _log_to(answers: TextIO) -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.PrintLoggerFactory(answers),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


if __name__ == "__main__":
    raise SystemExit(main())
