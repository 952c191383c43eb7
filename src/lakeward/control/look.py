"""Looking: everything the registry and the backend say, read once a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from lakeward.backends.base import Backend, Job, Known, Life
from lakeward.errors import DependencyDown
from lakeward.registry import drivers, generations, leases, observations, operations, restarts, streams
from lakeward.registry.drivers import Driver
from lakeward.registry.generations import Generation
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.spec.stream import Limits
from lakeward.streams.health import Sight, Verdict, verdict
from lakeward.streams.reconcile import World

Found = Sequence[Job] | None
"""What a backend answered; None when it could not be asked."""

Connect = Callable[[], AbstractContextManager[Connection]]
"""Opens one transaction on the registry."""


@dataclass(frozen=True)
class Facts:
    """What the registry says at one moment; `now` and every age are the database's.

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
    asked: Mapping[str, datetime]
    now: datetime
    answering_s: float

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
        return Limits() if generation is None else Limits.model_validate(generation.spec.get("limits") or {})

    def failure(self, stream: Stream) -> Restart | None:
        """The newest failure of a stream or of its whole driver."""
        found = [self.failures.get((stream.driver, stream.id)), self.failures.get((stream.driver, None))]
        return max((item for item in found if item is not None), key=lambda item: item.at, default=None)


def read(connection: Connection) -> Facts:
    """Read everything in one transaction."""
    rows = streams.all_streams(connection)
    now, up = connection.execute(
        select(func.now(), func.extract("epoch", func.now() - func.pg_postmaster_start_time()))
    ).one()
    return Facts(
        streams=rows,
        generations=generations.of_streams(connection, {row.id: row.generation for row in rows}),
        drivers=drivers.all_drivers(connection),
        driver_leases=leases.current(connection, "driver"),
        stream_leases=leases.current(connection, "stream"),
        observations=observations.latest(connection),
        failures=restarts.newest(connection),
        failures_24h=restarts.count_24h(connection),
        asked=operations.newest_starts(connection),
        now=now,
        answering_s=float(up),
    )


def ask(backend: Backend, facts: Facts) -> Found:
    """What the backend knows; None when it could not be asked."""
    try:
        return backend.find(facts.known())
    except DependencyDown:
        return None


def world(facts: Facts, found: Found, calm: str | None) -> World:
    """The part of the facts reconcile decides on."""
    return World(
        streams=facts.streams,
        drivers=facts.drivers,
        leases=facts.driver_leases,
        found=found,
        failures={driver: item for (driver, stream), item in facts.failures.items() if stream is None},
        asked=facts.asked,
        now=facts.now,
        calm=calm,
    )


def sight(facts: Facts, found: Found, stream: Stream) -> Sight:
    """Everything known of one stream."""
    driver = facts.drivers.get(stream.driver)
    return Sight(
        stream=stream,
        limits=facts.limits(stream.id),
        driver=driver,
        process=_life(driver, found),
        lease=facts.stream_leases.get(stream.id),
        observation=facts.observations.get(stream.id),
        failure=facts.failure(stream),
        now=facts.now,
    )


def verdicts(facts: Facts, found: Found) -> dict[str, Verdict]:
    """The word and the sentence of every stream."""
    return {stream.id: verdict(sight(facts, found, stream)) for stream in facts.streams}


def _life(driver: Driver | None, found: Found) -> Life:
    if driver is None:
        return Life.GONE
    if found is None:
        return Life.UNKNOWN
    job = next((item for item in found if (item.driver, item.token) == (driver.name, driver.token)), None)
    if job is None:
        return Life.UNKNOWN if driver.handle is not None else Life.GONE
    return Life.GONE if job.life is Life.REMNANT else job.life
