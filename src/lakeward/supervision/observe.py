"""Observation: everything the registry and the backend report, read once a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import structlog
from pydantic import ValidationError
from sqlalchemy import Connection, func, select

from lakeward.platform import machine
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown
from lakeward.registry import backpressure as pressures
from lakeward.registry import drivers, generations, incidents, leases, observations, operations, restarts, streams
from lakeward.registry.backpressure import TableBackpressure
from lakeward.registry.drivers import Driver, on_cluster
from lakeward.registry.generations import Generation
from lakeward.registry.incidents import Incident
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.spec.model.sources import MAX_AHEAD, WALL_CLOCK
from lakeward.spec.model.stream import Limits
from lakeward.spec.model.trigger import UNBATCHED
from lakeward.spec.model.types import Duration
from lakeward.supervision.backends.base import Backend, Job, Known, Life
from lakeward.supervision.decide import lateness
from lakeward.supervision.decide.health import HealthInput, State, Verdict, verdict
from lakeward.supervision.decide.reconcile import ObservedState, remains
from lakeward.supervision.decide.stuck import stuck

log = structlog.get_logger(__name__)

ObservedJobs = Sequence[Job] | None
"""The launches a backend reported; None if it could not be asked."""

Connect = Callable[[], AbstractContextManager[Connection]]
"""Opens one transaction on the registry."""
LATE = "late"
"""The kind of incident of a stream most of whose rows are late."""


@dataclass(frozen=True)
class Facts:
    """What the registry says at one moment; `now` and every age are in database time.

    `answering_s`: for how long the database server has been up.
    """

    streams: Sequence[Stream]
    generations: Mapping[str, Generation]
    drivers: Mapping[str, Driver]
    driver_leases: Mapping[str, Lease]
    stream_leases: Mapping[str, Lease]
    observations: Mapping[str, Observation]
    failures: Mapping[tuple[str, str | None], Restart]
    failures_24h: Mapping[tuple[str, str | None], int]
    start_requests: Mapping[str, datetime]
    now: datetime
    answering_s: float
    incidents: Mapping[tuple[str, str], Incident] = field(default_factory=dict)
    backpressures: Mapping[str, TableBackpressure] = field(default_factory=dict)

    @cached_property
    def hosted(self) -> dict[str, list[Stream]]:
        """Driver -> its streams."""
        hosted: dict[str, list[Stream]] = {}
        for stream in self.streams:
            hosted.setdefault(stream.driver, []).append(stream)
        return hosted

    @cached_property
    def by_id(self) -> dict[str, Stream]:
        """Stream by its id."""
        return {stream.id: stream for stream in self.streams}

    @cached_property
    def down(self) -> dict[str, str]:
        """Stream -> its dependency that does not answer, in words; from the open incidents."""
        down: dict[str, str] = {}
        for (kind, _), incident in self.incidents.items():
            if kind == "dependency":
                for stream in incident.streams:
                    down.setdefault(stream, str(incident.fields.get("what") or incident.text))
        return down

    @cached_property
    def down_next(self) -> dict[str, str]:
        """Stream -> the command that asks its dependency again, for those of `down`."""
        found: dict[str, str] = {}
        for (kind, _), incident in self.incidents.items():
            if kind == "dependency" and incident.fields.get("next"):
                for stream in incident.streams:
                    found.setdefault(stream, str(incident.fields["next"]))
        return found

    @property
    def thrash(self) -> str | None:
        """Why automatic restarts are suspended; None if they are not."""
        incident = self.incidents.get(("thrash", "streams"))
        if incident is None:
            return None
        until = attempt("incident thrash", lambda: datetime.fromisoformat(str(incident.fields["until"])))
        if isinstance(until, Failure) or until <= self.now:
            return None
        return f"automatic restarts are suspended: {incident.fields['what']}"

    def known(self) -> list[Known]:
        """The recorded identities of all drivers."""
        return [
            Known(row.name, row.token, row.handle, row.log or "")
            for row in self.drivers.values()
            if row.handle is not None
        ]

    def limits(self, stream: str) -> Limits:
        """The limits of the generation a stream runs."""
        generation = self.generations.get(stream)
        return Limits() if generation is None else _limits(generation.spec.get("limits") or {})

    def every(self, stream: str) -> Duration | None:
        """The trigger's interval of the generation a stream runs; None where it has none."""
        generation = self.generations.get(stream)
        trigger = {} if generation is None else generation.spec.get("trigger") or {}
        every = next((trigger[kind] for kind in ("every", *UNBATCHED) if trigger.get(kind)), None)
        return None if every is None else Duration(every)

    def schedule(self, stream: str) -> str | None:
        """The schedule of the generation a stream runs; None where it has none."""
        generation = self.generations.get(stream)
        schedule = None if generation is None else (generation.spec.get("trigger") or {}).get("schedule")
        return None if schedule is None else str(schedule)

    def max_state_rows(self, stream: str) -> int | None:
        """How many rows of state the generation a stream runs allows; None without a limit."""
        generation = self.generations.get(stream)
        max_rows = None if generation is None else (generation.spec.get("state") or {}).get("max_rows")
        return max_rows if isinstance(max_rows, int) else None

    def late(self, stream: str) -> str | None:
        """What is wrong with the event times of a stream that runs; None if nothing is."""
        generation, row = self.generations.get(stream), self.by_id.get(stream)
        if generation is None or row is None or row.desired != "running":
            return None
        bounds = [_ahead_s(source) for source in (generation.spec.get("sources") or {}).values()]
        ahead_s = max((bound for bound in bounds if bound is not None), default=None)
        reported = (LATE, stream) in self.incidents
        kept_in = generations.late_table(generation.spec)
        seen = self.observations.get(stream)
        return lateness.judge(seen, self.now, ahead_s=ahead_s, reported=reported, kept_in=kept_in)

    def backpressure(self, stream: str) -> TableBackpressure | None:
        """The back-pressure on a stream whose table waits for maintenance; None without."""
        return self.backpressures.get(self.table(stream) or "")

    def table(self, stream: str) -> str | None:
        """The lake's table that the generation a stream runs writes to; None for another sink."""
        generation = self.generations.get(stream)
        sink = {} if generation is None else generation.spec.get("sink") or {}
        return next((str(kind["table"]) for name in ("iceberg", "delta") if (kind := sink.get(name))), None)

    def failure(self, stream: Stream) -> Restart | None:
        """The newest failure of a stream or of its whole driver."""
        failures = [self.failures.get((stream.driver, stream.id)), self.failures.get((stream.driver, None))]
        return max((item for item in failures if item is not None), key=lambda item: item.at, default=None)


def _limits(stored: Any) -> Limits:
    """The limits this version can read; a newer version may have deployed the stream.

    One pass handles all streams: an unreadable value of one must not end it.
    """
    try:
        return Limits.model_validate(stored)
    except ValidationError as error:
        unread = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        return Limits.model_validate({key: stored[key] for key in stored.keys() - unread} if unread else {})


def read(connection: Connection, *, whole: bool = True, before: Facts | None = None) -> Facts:
    """Read everything in one transaction.

    Args:
        whole: include the progress reports, which only reports and commands show.
        before: an earlier observation, whose specs are not read again: they never change.
    """
    rows = streams.all_streams(connection)
    now, up = connection.execute(
        select(func.now(), func.extract("epoch", func.now() - func.pg_postmaster_start_time()))
    ).one()
    return Facts(
        streams=rows,
        generations=generations.of_streams(
            connection, {row.id: row.generation for row in rows}, known=before.generations if before else {}
        ),
        drivers=drivers.all_drivers(connection),
        driver_leases=leases.current(connection, "driver"),
        stream_leases=leases.current(connection, "stream"),
        observations=observations.latest(connection, whole=whole),
        failures=restarts.newest(connection),
        failures_24h=restarts.count_24h(connection),
        start_requests=operations.newest_starts(connection),
        now=now,
        answering_s=float(up),
        incidents=incidents.open_ones(connection),
        backpressures=pressures.current(connection),
    )


def observed_jobs(backend: Backend, facts: Facts) -> ObservedJobs:
    """The launches the backend reports; None if it could not be asked."""
    try:
        return backend.find(facts.known())
    except DependencyDown as error:
        log.warning("backend not available", backend=backend.name, error=error.what, why=error.why)
        return None


def observed_state(facts: Facts, jobs: ObservedJobs, startup_grace: str | None) -> ObservedState:
    """The part of the facts that reconcile decides on."""
    return ObservedState(
        streams=facts.streams,
        drivers=facts.drivers,
        leases=facts.driver_leases,
        jobs=jobs,
        failures={driver: item for (driver, stream), item in facts.failures.items() if stream is None},
        start_requests=facts.start_requests,
        now=facts.now,
        startup_grace=startup_grace,
        down=facts.down,
        thrash=facts.thrash,
        stuck=_stuck(facts, jobs),
        starved=machine.starved(),
    )


def _ahead_s(source: Mapping[str, Any]) -> float | None:
    """How far the watermark of a source may be ahead of the clock, in seconds; None if they are not compared."""
    mark = source.get("watermark")
    if not mark or not any(source.get(connector) for connector in WALL_CLOCK):
        return None
    bound = mark.get("max_ahead") or "off"
    return MAX_AHEAD.seconds if bound == "off" else Duration(bound).seconds


def health_input(facts: Facts, jobs: Jobs, stream: Stream) -> HealthInput:
    """The input of the health decision for one stream."""
    driver = facts.drivers.get(stream.driver)
    life, unreachable = _life(driver, jobs, stream.id)
    return HealthInput(
        stream=stream,
        limits=facts.limits(stream.id),
        driver=driver,
        process=life,
        lease=facts.stream_leases.get(stream.id),
        observation=facts.observations.get(stream.id),
        failure=facts.failure(stream),
        now=facts.now,
        down=facts.down.get(stream.id),
        unreachable=unreachable,
        thrash=facts.thrash,
        every=facts.every(stream.id),
        schedule=facts.schedule(stream.id),
        max_state_rows=facts.max_state_rows(stream.id),
        backpressure=facts.backpressure(stream.id),
        late=facts.late(stream.id),
    )


def verdicts(facts: Facts, observed: ObservedJobs) -> dict[str, Verdict]:
    """State and reason of every stream; `unknown` with the error for a stream that cannot be judged."""
    jobs = by_launch(observed)
    judged = {
        stream.id: attempt(f"stream {stream.id}", partial(_judged, facts, jobs, stream)) for stream in facts.streams
    }
    return {
        name: Verdict(State.UNKNOWN, seen.text, odd=True) if isinstance(seen, Failure) else seen
        for name, seen in judged.items()
    }


def _judged(facts: Facts, jobs: Jobs, stream: Stream) -> Verdict:
    return verdict(health_input(facts, jobs, stream))


def _stuck(facts: Facts, observed: ObservedJobs) -> dict[str, str]:
    """Driver -> why it has to be ended although it is alive."""
    jobs = by_launch(observed)
    judged = {
        name: attempt(f"progress of driver {name}", partial(_stuck_driver, facts, jobs, hosted))
        for name, hosted in facts.hosted.items()
    }
    return {name: why for name, why in judged.items() if isinstance(why, str)}


def _stuck_driver(facts: Facts, jobs: Jobs, hosted: Sequence[Stream]) -> str | None:
    return stuck(health_input(facts, jobs, stream) for stream in hosted)


Jobs = Mapping[tuple[str, str], Job] | None
"""The launches a backend reported, by driver and token; None if it could not be asked."""


def by_launch(jobs: ObservedJobs) -> Jobs:
    """The launches by driver and token: made once for all streams."""
    return None if jobs is None else {(item.driver, item.token): item for item in jobs}


def _life(driver: Driver | None, jobs: Jobs, stream: str) -> tuple[Life, str]:
    """What is left of a driver's process; if that is unknown, which part could not be asked."""
    if driver is None:
        return Life.GONE, ""
    if jobs is None:
        return Life.UNKNOWN, f"the {driver.backend} backend could not be asked"
    job = jobs.get((driver.name, driver.token))
    if job is None:
        known = f"the {driver.backend} backend does not know its process any more"
        return (Life.UNKNOWN, known) if driver.handle is not None and not driver.ended else (Life.GONE, "")
    life = remains(driver, job)
    if life is Life.UNKNOWN and on_cluster(job.handle):
        handle = job.handle or {}
        server = (
            "Kubernetes API" if "pod" in handle else "ResourceManager" if "application" in handle else "Spark master"
        )
        return life, job.lost or f"the {server} of driver {driver.name} could not be asked"
    if life is Life.UNKNOWN:
        hint = f"if that host is gone for good: lakeward streams restart {stream} --kill"
        return life, f"its process runs on host {job.host}, which cannot be asked from here ({hint}),"
    return (Life.GONE if life is Life.REMNANT else life), ""
