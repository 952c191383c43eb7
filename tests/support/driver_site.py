"""A deployment whose drivers run on a cluster: one stream, and passes that a test makes itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import delete, text

from lakeward.platform.runtime import Runtime
from lakeward.registry import drivers
from lakeward.registry.schema import restarts
from lakeward.spec.model.settings import Settings
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Job
from lakeward.supervision.context import backend_of, registry_of
from lakeward.supervision.reconcile import Summary, reconcile_once


@dataclass
class DriverSite:
    """The deployment.

    Attributes:
        hosts: the machines that reconcile, one after the other.
        sent: how many records were sent.
        evidence: facts for the report, which are written to `report` as they come; empty: to no file.
    """

    world: Any
    hosts: tuple[Runtime, ...]
    settings: Settings
    topic: str
    table: str
    stream: str
    report: str = ""
    sent: int = 0
    turn: int = 0
    evidence: dict[str, Any] = field(default_factory=dict)

    def reconcile(self, settings: Settings | None = None) -> Summary:
        """A pass of the next host."""
        self.turn += 1
        runtime = self.hosts[self.turn % len(self.hosts)]
        return reconcile_once(
            registry_of(runtime), runtime, holder="test", settings=settings or self.settings,
            chance=lambda: 0.0, startup_grace_s=0.0,
        )  # fmt: skip

    def send(self, count: int) -> None:
        self.world.numbers(self.topic, range(self.sent, self.sent + count))
        self.sent += count

    def until(self, what: str, done: Callable[[], Any]) -> Any:
        """Reconcile until something is so."""

        def look() -> Any:
            self.reconcile()
            return done()

        return self.world.wait_for(what, look, 300)

    def landed(self) -> bool:
        return bool(self.world.landed(self.table, self.stream) >= self.sent)

    def token(self) -> str:
        with self.world.connect() as connection:
            row = drivers.find(connection, self.world.name)
        return row.token if row is not None else ""

    def job(self, host: int = 0) -> Job:
        """The newest launch as a host sees it."""
        with self.world.connect() as connection:
            facts = observe.read(connection)
        token = facts.drivers[self.world.name].token
        return next(job for job in backend_of(self.hosts[host]).find(facts.known()) if job.token == token)

    def fresh(self) -> None:
        """Each trial is a first failure: growing pauses are not what is looked at here."""
        with self.world.connect() as connection:
            connection.execute(delete(restarts))

    def failure(self) -> str:
        with self.world.connect() as connection:
            row = connection.execute(text("SELECT error FROM restarts ORDER BY at DESC LIMIT 1")).scalar_one_or_none()
        return str(row or "")

    def exact(self) -> None:
        """Nothing lost, nothing doubled."""
        self.until("all rows", self.landed)
        assert sorted(row["n"] for row in self.world.rows(self.table)) == list(range(self.sent))

    def note(self, name: str, value: Any) -> None:
        """Keep a fact for the report, together with those of other tests."""
        self.evidence[name] = value
        if self.report:
            file = Path(self.report)
            kept = json.loads(file.read_text()) if file.exists() else {}
            file.write_text(json.dumps({**kept, **self.evidence}, indent=2))
