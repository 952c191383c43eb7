"""Ask for a check run: start the checking process, pass on what it tells, return its results.

The process has a clean environment and holds nothing of ours but a pipe: when this end closes, whatever way the asking
process ends, it interrupts its statements on the connect server and ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Timer
from typing import IO, Any

import structlog

from lakeward.errors import LakewardError, TimedOut
from lakeward.quality.request import Request, Scope, raise_line
from lakeward.runtime import Project, Runtime

log = structlog.get_logger(__name__)

TIMEOUT_S = 1800.0
_TAIL = 2000  # characters of the process's stderr shown when it dies
Tell = Callable[[str, str, dict[str, Any]], None]
"""Takes level, sentence and fields of one event."""


def check(
    runtime: Runtime,
    registry_url: str,
    project: Project | Path,
    tables: Sequence[str] | None = None,
    scope: Scope | None = None,
    *,
    suite: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    tell: Tell | None = None,
) -> list[dict[str, Any]]:
    """Check tables against their suites, record the results and move `verified`.

    Args:
        runtime, registry_url: where everything is.
        project: holds `expectations/`.
        tables: these, due or not; None for every table with a suite and an unproven head.
        scope: instead of each check's own.
        suite: a suite file for this run only; `verified` then stays where it is.
        timeout_s: after this the process is ended and its statements interrupted.
        tell: takes each event; structlog by default, so that an Airflow task's log tells the story.

    Returns:
        One result a checked table, as the contract's JSON of `quality run`; empty when nothing was due. A failed check
        does not raise: read `verdict`.

    Raises:
        SpecError: a suite asked for is missing or wrong.
        DependencyDown: the registry, the catalog or the connect server does not answer.
        TimedOut: the time is over.
    """
    root = project.root if isinstance(project, Project) else Path(project)
    request = Request(
        runtime=runtime,
        registry_url=registry_url,
        project=root.resolve(),
        tables=None if tables is None else tuple(tables),
        scope=scope,
        suite=suite.resolve() if suite else None,
    )
    with tempfile.TemporaryFile("w+", errors="replace") as noise:
        return _converse(request, noise, timeout_s, tell or _log)


def environment(runtime: Runtime) -> dict[str, str]:
    """What the checking process may know of ours, and what keeps its libraries quiet and at home."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    passwords = runtime.pgpass or os.environ.get("PGPASSFILE")
    if passwords:
        kept["PGPASSFILE"] = str(passwords)
    return kept | {
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONUNBUFFERED": "1",
        "TZ": "UTC",
        # Without it `pyspark.sql.functions`, which GX uses, looks for a JVM in this very process.
        "SPARK_CONNECT_MODE_ENABLED": "1",
    }


def _converse(request: Request, noise: IO[str], timeout_s: float, tell: Tell) -> list[dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward.quality"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=noise,
        text=True,
        errors="replace",
        env=environment(request.runtime),
        cwd="/",
    )
    late = Event()

    def give_up() -> None:
        late.set()
        process.terminate()

    timer = Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    answer: dict[str, Any] | None = None
    try:
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once: its exit code and stderr tell why
            process.stdin.write(request.model_dump_json() + "\n")
            process.stdin.flush()
        for line in process.stdout:
            event = json.loads(line)
            if "results" in event or "failed" in event:
                answer = event
            else:
                tell(str(event.pop("level", "info")), str(event.pop("event", "")), event)
        process.wait()
    finally:
        timer.cancel()
        _end(process)
    if late.is_set() and answer is None:
        raise TimedOut(
            "The check run took too long",
            why=f"it was ended after {timeout_s:g} s; its statements on the connect server were interrupted",
            next="lakeward stack status   then: lakeward quality run TABLE",
        )
    if answer is None:
        noise.seek(0)
        tail = noise.read()[-_TAIL:].strip()
        raise LakewardError(
            "The checking process ended without an answer",
            why=f"exit code {process.returncode}: {tail or 'it said nothing'}",
            next="lakeward doctor",
        )
    if "failed" in answer:
        raise_line(answer["failed"])
    results: list[dict[str, Any]] = answer["results"]
    return results


def _end(process: subprocess.Popen[str]) -> None:
    """End the process if it still runs: the closed pipe tells it to."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log(level: str, text: str, fields: dict[str, Any]) -> None:
    getattr(log, level if level in ("info", "warning", "error") else "info")(text, **fields)
