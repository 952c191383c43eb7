"""Actor: carries out one decision of reconcile. Every step is idempotent, and a kill at any point does no harm."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.connectors.cluster.resolve import resolved
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Launch as LaunchFile
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import listed
from lakeward.registry import drivers, events
from lakeward.registry.drivers import Driver, named
from lakeward.spec.model.driver_conf import conf, place, pod, yarn
from lakeward.spec.model.settings import Settings
from lakeward.supervision import termination
from lakeward.supervision.backends.base import Backend, Job, launch_folder
from lakeward.supervision.decide.reconcile import Adopt, Decision, FinalizeLaunch, Kill, Launch, Nothing, Unstick
from lakeward.supervision.driver_failure import Failing
from lakeward.supervision.observe import Connect, Facts

log = structlog.get_logger(__name__)

STUCK_GRACE_S = 5.0
"""Grace period between SIGTERM and SIGKILL for a stuck driver. Its leases and batches need no more."""


@dataclass(frozen=True)
class Done:
    """What was done with one driver: `act` is launched | adopted | finalized | killed | failed | skipped."""

    driver: str
    act: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Actor:
    """Carries out decisions.

    Attributes:
        connect: opens a transaction on the registry.
        settings: returns the project's settings; called only when a driver is launched, or fails on a cluster.
        chance: returns a float in [0, 1), for jitter.
    """

    connect: Connect
    runtime: Runtime
    backend: Backend
    settings: Callable[[], Settings]
    chance: Callable[[], float]

    def do(self, decision: Decision, facts: Facts) -> Done | None:
        """Carry out one decision; None if there was nothing to do."""
        match decision:
            case Launch():
                done = self._launch(decision, facts)
            case Adopt():
                done = self._adopt(decision)
            case FinalizeLaunch():
                done = self._finalize(decision, facts)
            case Unstick():
                done = self._unstick(decision)
            case Kill():
                done = self._kill(decision)
            case Nothing():
                return None
            case _:
                raise AssertionError(f"unknown decision {decision!r}")
        log.info("decision carried out", driver=done.driver, act=done.act, text=done.text, **done.fields)
        return done

    def _launch(self, decision: Launch, facts: Facts) -> Done:
        name, token = decision.driver, secrets.token_hex(16)
        settings = self.settings()
        with self.connect() as connection:
            if not drivers.record_intent(
                connection, name, token=token, previous=decision.previous, backend=settings.driver(name).backend
            ):
                return Done(name, "skipped", f"Driver {name} is being launched by another process")
        specs = [facts.generations[item].spec for item in decision.streams if item in facts.generations]
        try:
            declared = resolved(name, settings, self.runtime.connections)
            launch = LaunchFile(
                driver=name,
                token=token,
                folder=launch_folder(self.runtime.drivers, name),
                runtime=self.runtime,
                conf=conf(specs, declared),
                cluster=place(declared),
                pod=pod(specs, declared),
                yarn=yarn(declared),
            )
            job = self.backend.start(launch)
        except LakewardError as error:
            return self._could_not_start(decision, token, error, facts)
        with self.connect() as connection:
            drivers.started(connection, name, token, handle=job.handle or {}, host=job.host, log=job.log)
            events.record(
                connection,
                "driver",
                name,
                "launched",
                f"Launched for {listed(list(decision.streams))}: {decision.reason}",
                handle=job.handle or {},
                log=job.log,
            )
        pid = (job.handle or {}).get("pid")
        return Done(
            name,
            "launched",
            f"Launched driver {name} as {named(job.handle)} for {listed(list(decision.streams))}: {decision.reason}",
            {"pid": pid, "log": job.log},
        )

    def _could_not_start(self, decision: Launch, token: str, error: LakewardError, facts: Facts) -> Done:
        with self.connect() as connection:
            drivers.exited(connection, decision.driver, token, exit_code=None, error=str(error))
            attempt = Failing(self.runtime, self.chance).not_started(connection, decision.driver, error, facts)
        return Done(decision.driver, "failed", f"{error.what}: {error.why}; {attempt.why}", {"next": error.next})

    def _adopt(self, decision: Adopt) -> Done:
        name, job = decision.driver, decision.job
        with self.connect() as connection:
            drivers.started(connection, name, job.token, handle=job.handle or {}, host=job.host, log=job.log)
            events.record(connection, "driver", name, "adopted", decision.reason, handle=job.handle or {})
        pid = (job.handle or {}).get("pid")
        return Done(name, "adopted", f"Adopted driver {name}, {named(job.handle)}: {decision.reason}", {"pid": pid})

    def _kill(self, decision: Kill) -> Done:
        name, job = decision.driver, decision.job
        ended = self.backend.kill(job)
        pid = (job.handle or {}).get("pid")
        text = f"Killed {named(job.handle)} of driver {name}: {decision.reason}"
        if not ended:
            text = f"{_survived(name, job)}: {decision.reason}"
        with self.connect() as connection:
            events.record(connection, "driver", name, "killed", text, pid=pid, gone=ended)
        return Done(name, "killed" if ended else "failed", text, {"pid": pid})

    def _unstick(self, decision: Unstick) -> Done:
        """Write a thread dump, send SIGTERM, then SIGKILL. The recorded error carries the reason.

        A stopped process receives SIGKILL only: it handles SIGTERM when it is continued, which must not happen.
        """
        name, job = decision.driver, decision.job
        dump = self.backend.dump(job)
        ended = self.backend.kill(job) if job.stopped else self.backend.stop(job, grace_s=STUCK_GRACE_S)
        pid = (job.handle or {}).get("pid")
        dumped = f"; thread dump: {dump}" if dump else ""
        text = f"Ended {named(job.handle)} of driver {name}: {decision.reason}{dumped}"
        if not ended:
            text = f"{_survived(name, job)}: {decision.reason}{dumped}"
        with self.connect() as connection:
            if ended:
                drivers.exited(connection, name, job.token, exit_code=None, error=f"{decision.reason}{dumped}")
            events.record(connection, "driver", name, "unstuck", text, pid=pid, gone=ended, dump=dump)
        return Done(name, "killed" if ended else "failed", text, {"pid": pid, "dump": dump})

    def _finalize(self, decision: FinalizeLaunch, facts: Facts) -> Done:
        name = decision.driver
        with self.connect() as connection:
            row = drivers.find(connection, name)
            if row is None or row.token != decision.token:
                return Done(name, "skipped", f"Driver {name} was launched again in the meantime")
            end = termination.of(row, decision.job)
            drivers.terminated(connection, name, row.token, exit_code=end.code, error=end.error or None)
            text = end.words(name, known=_known(row, decision.job), reason=decision.reason)
            if not decision.desired or end.code == 0:
                events.record(connection, "driver", name, "exited", text, exit_code=end.code)
                return Done(name, "finalized", text, {"exit_code": end.code})
            attempt = Failing(self.runtime, self.chance).died(connection, row, end, text, facts)
        kind = attempt.failure_class.value
        return Done(name, "finalized", f"{text}; {attempt.why}", {"failure_class": kind, "exit_code": end.code})


def _known(row: Driver, job: Job | None) -> bool:
    """Whether a process was recorded and its end was observed: else the reason of the decision is all that is known."""
    return row.handle is not None and not (job is not None and job.lost)


def _survived(driver: str, job: Job) -> str:
    who = named(job.handle)
    return f"{who[:1].upper()}{who[1:]} of driver {driver} still exists after SIGKILL"
