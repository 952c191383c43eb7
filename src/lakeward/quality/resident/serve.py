"""The loop of the checker: wait, claim a run, let the checking process work, record the answer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import structlog

from lakeward.platform import machine
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Home, Project, Runtime, registry_url
from lakeward.quality.resident.recycle import ProcessUsage, code_digest, due, limits
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request, place
from lakeward.quality.runs.working import TTL, RunWork
from lakeward.registry import check_runs, checkers, version
from lakeward.registry.check_runs import Claimed, Fenced
from lakeward.registry.listen import Notifications

log = structlog.get_logger(__name__)

LOOK_S = 5.0
"""Polling interval of the registry without a notification; each poll is a heartbeat."""
WARM_AFTER_S = 8.0
"""Idle time before the checking process is warmed up: the start of a stack needs the CPU first."""
WARM_WITHIN_S = 300.0
AGAIN_S = 2.0
STOP_GRACE_S = 10.0
CODE_EVERY_S = 15.0


class Resident:
    """One checker of one project and lake.

    Args:
        ttl: of its claims.
        grace_s: after SIGTERM a run may take this long to finish; then it is given back.
    """

    def __init__(self, home: Home, project: Project, *, ttl: timedelta = TTL, grace_s: float = STOP_GRACE_S) -> None:
        self._home, self._project, self._ttl, self._grace_s = home, project, ttl, grace_s
        self.runtime = Runtime.load(home.runtime_file)
        self.url = registry_url(home)
        self.owner = f"checker {socket.gethostname()}:{os.getpid()}"
        self._place = place(project.root, self.runtime.lake)
        self._made_of = code_digest(home.runtime_file)
        self._looked_at_code = time.monotonic()
        self._process: CheckingProcess | None = None
        self._warming: threading.Thread | None = None
        self._began, self._runs, self._idle_since = 0.0, 0, time.monotonic()
        self._stopping = threading.Event()
        self._wake = os.pipe()

    def stop(self, *signal: object) -> None:
        """Stop at the end of the current run; after the grace period the run is given back."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        os.write(self._wake[1], b".")
        late = threading.Timer(self._grace_s, self._hang_up)
        late.daemon = True
        late.start()

    def serve(self) -> None:
        """Serve until stopped, or until the installed code changes."""
        log.info("Checker started", owner=self.owner, project=str(self._project.root))
        try:
            with Notifications(self.url, self.runtime.pgpass, check_runs.CHANNEL) as notices:
                while not self._stopping.is_set() and not self._outdated():
                    try:
                        worked = self._next()
                    except DependencyDown as error:
                        log.warning("Checker error", error=f"{error.what}: {error.why}")
                        self._stopping.wait(AGAIN_S)
                        continue
                    if not worked:
                        self._ready()
                        notices.wait(LOOK_S, (self._wake[0],))
        finally:
            self._end("the checker stops")
            with contextlib.suppress(DependencyDown), self._connect() as connection:
                checkers.record_exit(connection, self.owner)

    def _connect(self) -> Any:
        return version.connect(self.url, self.runtime.pgpass)

    def _next(self) -> bool:
        """Work on the next run, if there is one."""
        with self._connect() as connection:
            checkers.record_heartbeat(connection, self.owner, self._place)
            claimed = check_runs.claim(connection, self.owner, self._ttl, place=self._place)
        if claimed is None:
            return False
        self._work(claimed)
        self._idle_since = time.monotonic()
        return True

    def _work(self, claimed: Claimed) -> None:
        claim = claimed.claim
        log.info("Check run started", check_run=claim.run, claim=claim.number, **claimed.request)
        request = Request.model_validate({**self._where(), **claimed.request})
        process = self._ready_process()
        work = RunWork(
            self._connect, self._ttl, lambda link: checkers.record_heartbeat(link, self.owner, self._place), again=True
        )
        try:
            worked = work.do(claimed, process, request, lambda level, text, fields: None)
        except Fenced as error:
            log.warning("Check run taken over", check_run=claim.run, error=f"{error.what}: {error.why}")
            self._end("its run was taken over")
            return
        self._runs += 1
        why = f"{worked.error.what}: {worked.error.why}" if worked.error else ""
        verdicts = {result["table"]: result["verdict"] for result in worked.results}
        log.info(
            "Check run ended", check_run=claim.run, state=worked.state, verdicts=verdicts, why=why, rss=process.rss
        )
        if process.ended:
            self._end("its process ended with its run")

    def _ready(self) -> None:
        """Between two runs: end the process when it is due, and warm up a new one after some idle time."""
        if self._process is not None:
            used = ProcessUsage(time.monotonic() - self._began, self._runs, self._process.rss)
            why = "it ended" if self._process.ended else due(used, limits(self._project))
            if why is None:
                return
            was_warm = not self._process.ended
            self._end(why)
            self._idle_since = (
                0.0 if was_warm else time.monotonic()
            )  # a process that cannot start is not retried at once
        if time.monotonic() - self._idle_since < WARM_AFTER_S:
            return
        # In a thread: a run requested meanwhile is claimed and waits for the same process.
        self._warming = threading.Thread(target=self._warm, args=(self._ready_process(),), name="warm", daemon=True)
        self._warming.start()

    def _warm(self, process: CheckingProcess) -> None:
        began = time.monotonic()
        try:
            process.ask(
                Request.model_validate({**self._where(), "warm": True}),
                timeout_s=machine.patience(WARM_WITHIN_S), emit=lambda level, text, fields: None,
            )  # fmt: skip
        except LakewardError as error:
            log.warning("Checker error", error=f"{error.what}: {error.why}")
            process.hang_up()
            return
        log.info("Checking process ready", wall_s=round(time.monotonic() - began, 1), rss=process.rss)

    def _ready_process(self) -> CheckingProcess:
        if self._process is None:
            self._process = CheckingProcess(self.runtime)
            self._began, self._runs = time.monotonic(), 0
        return self._process

    def _where(self) -> dict[str, object]:
        return {"runtime": self.runtime, "registry_url": self.url, "project": self._project.root}

    def _hang_up(self) -> None:
        if self._process is not None:
            self._process.hang_up()

    def _end(self, why: str) -> None:
        if self._process is not None:
            log.info("Checking process ended", why=why, runs=self._runs)
            self._process.hang_up()
            if self._warming is not None:
                self._warming.join()  # it reads until its process has ended
                self._warming = None
            self._process.close()
            self._process = None

    def _outdated(self) -> bool:
        """Whether the installed code or the addresses changed, so that a new checker has to take over."""
        if time.monotonic() - self._looked_at_code < CODE_EVERY_S:
            return False
        self._looked_at_code = time.monotonic()
        if code_digest(self._home.runtime_file) == self._made_of:
            return False
        log.info("Checker outdated; the supervisor restarts it", why="Lakeward, its engines or the addresses changed")
        return True
