"""Where operations work: the registry, the addresses, the backend, and who asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from lakeward.backends.base import Backend, Life
from lakeward.control import look
from lakeward.control.analysis import problems
from lakeward.control.look import Connect, Facts
from lakeward.control.reconcile import backend_of, reconcile_once
from lakeward.errors import DependencyDown, Refused
from lakeward.registry import streams
from lakeward.registry.streams import Stream
from lakeward.runtime import Runtime
from lakeward.spec.settings import Settings
from lakeward.spec.stream import StreamSpec
from lakeward.streams.health import Verdict, verdict

log = structlog.get_logger(__name__)

TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Seen:
    """One stream at one moment."""

    facts: Facts
    row: Stream
    verdict: Verdict

    @property
    def quiet(self) -> bool:
        """No query of it runs: nobody holds its lease, whatever word it has."""
        lease = self.facts.stream_leases.get(self.row.id)
        return lease is None or not lease.live


@dataclass(frozen=True)
class Site:
    """What every operation needs.

    Attributes:
        connect: opens a transaction on the registry.
        author: who asks.
        holder: who waits, as others will read it.
        timeout_s: how long one wait may take; None: as long as the operation usually needs.
        sleep: waits; given so that tests need no real time.
        analyse: what is wrong with a spec's transform, found without running anything; takes the table's columns.
    """

    connect: Connect
    runtime: Runtime
    author: str
    holder: str
    backend: Backend | None = None
    settings: Settings | Callable[[], Settings] | None = None
    timeout_s: float | None = None
    sleep: Callable[[float], None] = time.sleep
    analyse: Callable[[StreamSpec, Collection[str]], list[str]] = problems

    def see(self, stream: str) -> Seen:
        """The stream as it is now."""
        with self.connect() as connection:
            facts = look.read(connection)
            row = streams.get(connection, stream)
        found = look.ask(self.backend or backend_of(self.runtime), facts)
        return Seen(facts, row, verdict(look.sight(facts, found, row)))

    def reconcile(self) -> None:
        """One pass, so that an operation needs nobody else."""
        try:
            reconcile_once(self.connect, self.runtime, self.backend, holder=self.holder, settings=self.settings)
        except DependencyDown as error:
            log.warning(f"{error.what}: {error.why}")

    def kill(self, stream: str) -> None:
        """End the process of a stream's driver.

        Raises:
            Refused: it runs other streams too.
        """
        backend = self.backend or backend_of(self.runtime)
        with self.connect() as connection:
            facts = look.read(connection)
            row = streams.get(connection, stream)
        hosted = [item.id for item in facts.streams if item.driver == row.driver and item.desired == "running"]
        if hosted:
            raise Refused(
                f"The driver of {stream} is not killed",
                why=f"it also runs {', '.join(hosted)}",
                next=f"lakeward streams stop {' '.join(hosted)}",
            )
        for job in backend.find(facts.known()):
            if job.driver == row.driver and job.life in (Life.ALIVE, Life.REMNANT):
                backend.stop(job, grace_s=5.0)
