"""Context of an operation: registry, addresses, backend, author."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from lakeward.engine.analysis import problems
from lakeward.platform.errors import DependencyDown, Refused
from lakeward.platform.runtime import Runtime
from lakeward.registry import drivers, events, streams
from lakeward.registry.drivers import Driver
from lakeward.registry.streams import Stream
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Backend, Job, Life
from lakeward.supervision.decide.health import State, Verdict, verdict
from lakeward.supervision.decide.reconcile import remains
from lakeward.supervision.observe import Connect, Facts
from lakeward.supervision.reconcile import backend_of, reconcile_once

log = structlog.get_logger(__name__)

TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ObservedStream:
    """Observation of one stream: registry row, verdict, driver process."""

    facts: Facts
    row: Stream
    verdict: Verdict
    process: Life

    @property
    def runs(self) -> bool:
        """Whether it runs without trouble, or has completed its run."""
        return self.verdict.state in (State.HEALTHY, State.LAGGING, State.COMPLETED)

    @property
    def quiet(self) -> bool:
        """Whether no query of the stream runs: its lease is not live, whatever its state says."""
        lease = self.facts.stream_leases.get(self.row.id)
        return lease is None or not lease.live

    @property
    def out_of_reach(self) -> bool:
        """Whether the driver's process cannot be observed from this host and its driver lease is not live."""
        lease = self.facts.driver_leases.get(self.row.driver)
        return self.process is Life.UNKNOWN and (lease is None or not lease.live)


@dataclass(frozen=True)
class Context:
    """What every operation needs: registry, addresses, backend, author, limits.

    Attributes:
        connect: opens a transaction on the registry.
        author: the person recorded with every change.
        holder: the name of this process in leases and tickets.
        timeout_s: limit of one wait; None: the usual limit of the operation.
        sleep: waits; tests replace it.
        analyse: problems of a spec's transform, found without running it; takes the table's columns and the
            addresses.
        say: shows a line to the person who waits; nothing where nobody reads, e.g. in a task, whose log has the same.
    """

    connect: Connect
    runtime: Runtime
    author: str
    holder: str
    backend: Backend | None = None
    settings: Settings | Callable[[], Settings] | None = None
    timeout_s: float | None = None
    sleep: Callable[[float], None] = time.sleep
    analyse: Callable[[StreamSpec, Mapping[str, Any] | None, Runtime | None], list[str]] = problems
    say: Callable[[str], None] = lambda text: None

    def observe(self, stream: str) -> ObservedStream:
        """Observe the stream now."""
        with self.connect() as connection:
            facts = observe.read(connection)
            row = streams.get(connection, stream)
        jobs = observe.observed_jobs(self.backend or backend_of(self.runtime), facts)
        inputs = observe.health_input(facts, observe.by_launch(jobs), row)
        return ObservedStream(facts, row, verdict(inputs), inputs.process)

    def reconcile(self) -> str:
        """Run one reconcile pass, so that an operation also works while Airflow is down.

        Returns:
            That drivers are launched later, and why, as a clause; empty if nothing kept the pass from launching them.
        """
        try:
            summary = reconcile_once(
                self.connect,
                self.runtime,
                self.backend,
                holder=self.holder,
                settings=self.settings,
                supervises=False,
            )
        except DependencyDown as error:
            log.warning("reconcile pass failed", error=error.what, why=error.why)
            why: str | None = f"no reconcile pass was possible: {error.what}"
        else:
            why = summary.startup_grace
        return f", but {why}; the next reconcile pass, or another start, launches its driver" if why else ""

    def kill(self, stream: str) -> str:
        """Kill the process of a stream's driver, or finalize its launch where the host cannot be reached.

        A kill by a person is not a failure: it does not count for the restart policy.

        Returns:
            What was done, as a clause.

        Raises:
            Refused: the driver runs other streams too, or its host cannot be reached and its lease is live.
        """
        backend = self.backend or backend_of(self.runtime)
        with self.connect() as connection:
            facts = observe.read(connection)
            row = streams.get(connection, stream)
        driver = facts.drivers.get(row.driver)
        jobs = [job for job in backend.find(facts.known()) if job.driver == row.driver]
        for job in jobs:
            if driver is not None and job.token == driver.token and remains(driver, job) is Life.UNKNOWN:
                return self._give_up(facts, stream, driver, job)
        hosted = [item.id for item in facts.streams if item.driver == row.driver and item.desired == "running"]
        if hosted:
            raise Refused(
                f"Cannot kill the driver of stream {stream}",
                why=f"the same driver also runs {', '.join(hosted)}",
                next=f"lakeward streams stop {' '.join(hosted)}",
                code="LW-2013",
            )
        for job in jobs:
            if job.life in (Life.ALIVE, Life.REMNANT) and backend.stop(job, grace_s=5.0):
                self._finalize(
                    job, f"{self.author} ended process {(job.handle or {}).get('pid')} of driver {job.driver}"
                )
        return "killing its driver"

    def _give_up(self, facts: Facts, stream: str, driver: Driver, job: Job) -> str:
        """Finalize a launch that cannot be observed. If it still runs, the next launch fences it."""
        lease = facts.driver_leases.get(driver.name)
        if lease is not None and lease.live:
            raise Refused(
                f"Cannot kill the driver of stream {stream} from this host",
                why=f"it runs on host {job.host} and its lease is live",
                next=f"on that host: lakeward streams restart {stream} --kill",
                code="LW-2014",
            )
        self._finalize(
            job, f"{self.author} gave driver {driver.name} up: its host {job.host} cannot be reached from here"
        )
        return f"giving up its driver on host {job.host}"

    def _finalize(self, job: Job, text: str) -> None:
        with self.connect() as connection:
            row = drivers.find(connection, job.driver)
            if row is not None and row.token == job.token:
                drivers.terminated(connection, row.name, row.token, exit_code=row.exit_code, error=row.error or text)
            events.record(connection, "driver", job.driver, "killed", text, handle=dict(job.handle or {}))
