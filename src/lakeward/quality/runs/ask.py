"""Request a check run, follow it, and return its results.

The resident checker works on it, with Great Expectations warm. Without a checker, or if it dies, the requesting process
claims the run and starts a checking process of its own: the same results for 8 CPU-seconds more.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import structlog

from lakeward.platform import machine
from lakeward.platform.errors import DependencyDown, LakewardError, TimedOut
from lakeward.platform.runtime import Project, Runtime, resolved
from lakeward.quality.runs.following import Next, Step, decide
from lakeward.quality.runs.process import TIMEOUT_S, CheckingProcess, Emit
from lakeward.quality.runs.request import Request, Scope, place, raise_line
from lakeward.quality.runs.working import TTL, Connect, RunWork, withdraw
from lakeward.registry import check_runs, version
from lakeward.registry.check_runs import Fenced, Run, RunRequest
from lakeward.registry.checkers import alive
from lakeward.registry.listen import Notifications

if TYPE_CHECKING:
    from lakeward.quality.results.records import RunDocument

log = structlog.get_logger(__name__)

REQUEST_EVERY = timedelta(seconds=30)
"""A run is not started later than this after the requester's last heartbeat."""
_LOOK_S = 2.0
_AWAY_S = 60.0
"""The registry may be unreachable for this long while a run is followed."""


def check(
    runtime: Runtime,
    registry_url: str,
    project: Project | Path,
    tables: Sequence[str] | None = None,
    scope: Scope | None = None,
    *,
    suite: Path | None = None,
    upto: int | None = None,
    timeout_s: float = TIMEOUT_S,
    emit: Emit | None = None,
) -> list[RunDocument]:
    """Check tables against their suites, record the results and move `verified`.

    Args:
        runtime, registry_url: the deployment.
        project: the project with `expectations/`.
        tables: check these, due or not; None for every table with a suite and an unproven head.
        scope: instead of each check's own.
        suite: a suite file for this run only; `verified` then stays where it is.
        upto: the last snapshot to check, for one table; the head by default.
        timeout_s: after this the run is ended and its statements interrupted.
        emit: receives each event; by default it is logged, so that it appears in the Airflow task's log.

    Returns:
        One result a checked table, as the contract's JSON of `quality run`; empty when none was due. A failed check
        does not raise, nor does a table that could not be checked (its engine or catalog is down): read `verdict`.

    Raises:
        SpecError: a requested suite is missing or invalid.
        DependencyDown: the registry does not answer, so nothing could be recorded.
        Refused: the registry is of another version.
        TimedOut: the run exceeded `timeout_s`.
    """
    root = project.root if isinstance(project, Project) else Path(project)
    request = Request(
        runtime=runtime,
        registry_url=registry_url,
        project=resolved(root),
        tables=None if tables is None else tuple(tables),
        scope=scope,
        suite=resolved(suite) if suite else None,
        upto=upto,
    )
    asker = Requester(request, emit or _log)
    try:
        run = asker.ask(timeout_s)
    except DependencyDown:
        # Imported here: reading a project costs half a CPU-second of imports, which the checker has behind it.
        from lakeward.quality.suite.project import order

        order(request, strict=True)  # an invalid suite is reported in any case
        raise
    try:
        return asker.follow(run)
    finally:
        withdraw(asker.connect, run)


class Requester:
    """Requests a run and waits for its answer."""

    def __init__(self, request: Request, emit: Emit) -> None:
        self._request, self._emit = request, emit
        self._place = place(request.project, request.runtime.lake)
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self.connect: Connect = lambda: version.connect(request.registry_url, request.runtime.pgpass)

    def ask(self, timeout_s: float) -> int:
        """Insert the request into the registry; returns its id."""
        document = self._request.model_dump(mode="json", include={"tables", "scope", "suite", "upto"})
        with self.connect() as connection:
            return check_runs.ask(
                connection, self._place, cast("RunRequest", document),
                asked_by=self._name, timeout=timedelta(seconds=timeout_s), wait=REQUEST_EVERY,
            )  # fmt: skip

    def follow(self, run: int) -> list[RunDocument]:
        """Pass on the run's events and return its answer. Work on the run here if no checker does."""
        emitted = 0
        with Notifications(self._request.registry_url, self._request.runtime.pgpass, check_runs.CHANNEL) as notices:
            while True:
                seen, served = self._look(run)
                for level, text, fields in (seen.told if seen else [])[emitted:]:
                    self._emit(level, text, fields)
                    emitted += 1
                what = decide(seen, served, machine.patience)
                if what.step is Step.WAIT:
                    notices.wait(_LOOK_S)
                elif what.step is Step.TAKE:
                    results = self._take(run, what.why)
                    if results is not None:
                        return results
                else:
                    return _ended(run, seen, what)

    def _look(self, run: int) -> tuple[Run | None, bool]:
        until = time.monotonic() + _AWAY_S
        while True:
            try:
                with self.connect() as connection:
                    return check_runs.extend_wait(connection, run, REQUEST_EVERY), alive(connection, self._place)
            except DependencyDown:
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    def _take(self, run: int, why: str) -> list[RunDocument] | None:
        """Work on the run in a process of our own; None if another process claimed it first."""
        with self.connect() as connection:
            claimed = check_runs.claim(connection, self._name, TTL, place=self._place, run=run)
        if claimed is None:
            return None
        self._emit("warning", why, {"check_run": run})
        try:
            with CheckingProcess(self._request.runtime) as process:
                worked = RunWork(self.connect).do(claimed, process, self._request, self._emit)
        except Fenced as fenced:  # this process was paused too long
            self._emit("warning", f"{fenced.what}: {fenced.why}", {"check_run": run})
            return None
        if worked.error is not None:
            raise worked.error
        return worked.results


def _ended(run: int, seen: Run | None, what: Next) -> list[RunDocument]:
    """The answer of a run that has ended.

    Raises:
        LakewardError: the error in the answer, or why there is no answer.
    """
    again = "lakeward stack status   then: lakeward quality run TABLE"
    if what.step is Step.LATE:
        raise TimedOut("The check run timed out", why=what.why, next=again, code="LW-5013")
    if seen is None or seen.answer is None:
        raise LakewardError(f"Check run {run} has no answer", why=what.why, next=again, code="LW-5014")
    if "failed" in seen.answer:
        raise_line(seen.answer["failed"])
    return cast("list[RunDocument]", seen.answer["results"])


def _log(level: str, text: str, fields: Mapping[str, object]) -> None:
    getattr(log, level if level in ("info", "warning", "error") else "info")(text, **fields)
