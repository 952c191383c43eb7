"""The checking process: `python -m lakeward.quality`, a request on stdin, events and one answer as JSON lines."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from lakeward.errors import LakewardError
from lakeward.quality.project import order
from lakeward.quality.request import Request, error_line
from lakeward.quality.run import Engines, run
from lakeward.quality.tell import story

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


def main() -> int:
    """Entry point. Returns 0 when there is an answer; what the checks said stands in it."""
    answers = _private_stdout()
    _log_to(answers)
    request = Request.model_validate_json(sys.stdin.readline())
    sessions: list[SparkSession] = []
    threading.Thread(target=_end_with_asker, args=(sessions,), daemon=True).start()
    with ExitStack() as held:
        try:
            wanted = order(request)
            engines = Engines(request.runtime, request.registry_url, _session(request, held, sessions))
            results = run(wanted, engines)
            for result in results:
                story(result)
            answer: dict[str, Any] = {"results": [result.document() for result in results]}
        except LakewardError as error:
            answer = error_line(error)
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    return 0


def _session(request: Request, held: ExitStack, sessions: list[SparkSession]) -> Callable[[], SparkSession]:
    def make() -> SparkSession:
        from lakeward.connectors.spark_connect import session

        made = held.enter_context(session(request.runtime))
        sessions.append(made)
        return made

    return make


def _end_with_asker(sessions: list[SparkSession]) -> None:
    """When the asker's end of the pipe closes nobody waits for the answer: stop the server's work, and end."""
    sys.stdin.read()
    for session in sessions:
        try:
            session.interruptAll()
            session.stop()
        except Exception:  # noqa: BLE001, S110 - ending: the server drops the session by its own timeout
            pass
    os._exit(75)


def _private_stdout() -> TextIO:
    """Keep stdout for our lines: whatever a library prints goes to stderr."""
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
