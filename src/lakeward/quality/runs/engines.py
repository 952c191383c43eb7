"""The engines of a run: registry, catalog, Spark session and Great Expectations, each created on first use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.spark import connect, server_process
from lakeward.platform import machine
from lakeward.platform.runtime import Runtime
from lakeward.quality.engine.healing import Act, ServerFacts, decide
from lakeward.quality.engine.suspects import Suspects
from lakeward.quality.engine.timeouts import Progress
from lakeward.quality.ranges import metadata
from lakeward.registry import check_runs, engine, events, maintenance
from lakeward.registry.check_runs import Claim

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql.connect.session import SparkSession
    from sqlalchemy import Connection

    from lakeward.quality.engine.gx import Checker

log = structlog.get_logger(__name__)

BACK_S = 60.0
"""A server that ended is waited for so long; its supervisor starts it in some ten seconds."""
_POLL_S = 0.5
ENDS_S = 15.0
"""A server that is about to end closes its address within so long, and is not up again sooner than it is looked at."""
_ENDS_POLL_S = 0.1


@dataclass
class Engines:
    """The engines of a run, created on first use: a run with nothing to do never pays for GX or a session.

    Attributes:
        session_of: opens a session with the given id, which is recorded before use.
        suspects: checks that harmed the server, or whose time was over, in an earlier run of this process.
        claim: the claim on the run in the registry; None for a run without one, which cannot be taken over.
    """

    runtime: Runtime
    registry_url: str
    session_of: Callable[[str], SparkSession]
    claim: Claim | None = None
    progress: Progress = field(default_factory=Progress)
    suspects: Suspects = field(default_factory=Suspects)
    _stages: dict[str, set[int]] = field(default_factory=dict)
    _given_up: float | None = None

    def begin(self, claim: Claim | None) -> None:
        """Before a run: keep what is warm since the last run, if it still answers."""
        self.claim = claim
        if self._given_up is not None:
            self.heal()  # others used the server when something was given up on it
        known = self.__dict__.pop("lake", None)
        if known is not None:
            known.close()  # a catalog that was restarted since would fail its next statement
        warm = self.__dict__.get("session")
        if warm is not None and not connect.answers(self.runtime, warm):
            del self.__dict__["session"]
            self.__dict__.pop("checker", None)  # its SQL checks run on the session it was made with
        elif warm is not None:
            connect.activate(warm)  # meanwhile another server may have been used in this process
            self._remember(warm.session_id)

    def reachable(self) -> bool:
        """Whether something listens at the Connect server's address."""
        return connect.listens(self.runtime)

    def answers(self) -> bool:
        """Whether the session can still be used."""
        warm = self.__dict__.get("session")
        return warm is None or connect.answers(self.runtime, warm)

    def give_up(self) -> None:
        """Close the session's channel, so that statements that wait fail now; `renew` makes another."""
        warm = self.__dict__.get("session")
        if warm is not None:
            connect.close(warm)

    def hurry(self) -> None:
        """Let the session's statements fail at the first attempt: there is no server to wait for."""
        warm = self.__dict__.get("session")
        if warm is not None:
            warm.client.set_retry_policies([])

    def renew(self) -> None:
        """Forget the session and what was made with it; the next use opens another, recorded before it is used.

        Raises:
            Fenced: another process has taken the run over.
        """
        self.prove()
        warm = self.__dict__.get("session")
        self._forget()
        if warm is None:
            return
        try:
            connect.interrupt(self.runtime, warm.session_id)  # what it left running
        except Exception as error:  # noqa: BLE001 - the server drops the session by its own timeout
            log.warning("A lost session could not be released", error=type(error).__name__)

    def wait(self, *, ending: bool = False) -> None:
        """Wait until something listens at the server's address again: its supervisor starts a server that ended.

        Args:
            ending: the server is about to end; it listens a while longer.
        """
        last = time.monotonic() + machine.patience(ENDS_S)
        while ending and self.reachable() and time.monotonic() < last:
            time.sleep(_ENDS_POLL_S)
        end = time.monotonic() + machine.patience(BACK_S)
        while not self.reachable() and time.monotonic() < end:
            time.sleep(_POLL_S)

    def heal(self) -> None:
        """End the server if it works on what was given up and nobody else uses it: its supervisor starts it again.

        Raises:
            Fenced: another process has taken the run over.
        """
        began = self._given_up = time.monotonic() if self._given_up is None else self._given_up
        process = server_process.find(self.runtime)
        busy = server_process.working(process) if process is not None else 0
        with self.registry() as connection:
            others = maintenance.running_on_connect(connection)
            others += [f"check run {each}" for each in check_runs.running_beside(connection, self.claim)]
        facts = ServerFacts(process is not None, busy, tuple(others), time.monotonic() - began)
        act = decide(facts)
        if act is Act.WAIT:
            log.warning("Connect server works on what was given up; it is restarted later", used_by=others)
            return
        self._given_up = None
        if act is Act.WARN:
            log.warning("Connect server may work on what was given up; restart it", next="lakeward stack status")
        if act is not Act.END or process is None:
            return
        self.prove()
        with self.keeping() as connection:
            text = f"ended, so that it is restarted: {busy} of its threads worked on statements that were given up"
            events.record(connection, "part", "connect", "restarted", text)
        log.warning("Connect server ended; its supervisor restarts it", threads=busy)
        server_process.end(process)
        self._forget()
        self.wait()

    def _forget(self) -> None:
        """Forget the session of a server that ended, without a word to it."""
        warm = self.__dict__.pop("session", None)
        self.__dict__.pop("checker", None)
        if warm is not None:
            connect.close(warm)

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction on the registry."""
        with engine.connect(self.registry_url, self.runtime.pgpass) as connection:
            yield connection

    @contextmanager
    def keeping(self) -> Iterator[Connection]:
        """One transaction that records something of this run, only while this process holds the run.

        Raises:
            Fenced: they have.
        """
        with self.registry() as connection:
            if self.claim is not None:
                check_runs.hold(connection, self.claim)
            yield connection

    def prove(self) -> None:
        """Check that this process still holds the run. Call it before a change outside of the registry.

        Raises:
            Fenced: it is not.
        """
        if self.claim is not None:
            with self.keeping():
                pass

    @cached_property
    def lake(self) -> Catalog:
        """The catalog in PyIceberg."""
        return metadata.catalog(self.runtime)

    @cached_property
    def session(self) -> SparkSession:
        """The Spark Connect session. It counts the Spark jobs it runs."""
        from pyspark.sql.connect.client.retries import DefaultPolicy

        own_id = connect.new_session_id()
        self._remember(own_id)
        session = self.session_of(own_id)
        # The client's default waits ten minutes for a missing server; this waits half a minute.
        session.client.set_retry_policies([DefaultPolicy(max_retries=6, max_backoff=10_000)])
        # A statement shorter than the interval (2 s by default) would not be reported, nor counted.
        session.conf.set("spark.connect.progress.reportInterval", "20ms")
        handler: Any = self._progress
        session.registerProgressHandler(handler)
        return session

    @cached_property
    def checker(self) -> Checker:
        """Great Expectations; the import takes 7 CPU-seconds."""
        began = time.process_time()
        from lakeward.quality.engine.gx import Checker

        connect.activate(self.session)
        made = Checker()
        log.info("Great Expectations imported", cpu_s=round(time.process_time() - began, 1))
        return made

    def warm(self) -> None:
        """Open the session and import Great Expectations before the first run needs them."""
        self.session.sql("SELECT 1").collect()
        _ = self.checker

    def _remember(self, session_id: str) -> None:
        if self.claim is not None:
            with self.registry() as connection:
                check_runs.remember_session(connection, self.claim, session_id)

    @property
    def jobs(self) -> int:
        """Number of Spark jobs so far: stages that ran a task, because under adaptive execution each is a job of its
        own. Taken from progress reports, so a job of a few milliseconds may be missed.
        """
        return sum(len(each) for each in self._stages.values())

    def _progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        running = inflight_tasks > 0 or any(each.num_completed_tasks < each.num_tasks for each in stages or ())
        self.progress.report(operation_id or "", running, done)
        self._stages.setdefault(operation_id or "", set()).update(
            stage.stage_id for stage in stages or () if stage.num_completed_tasks
        )
