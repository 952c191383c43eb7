"""Acting: carry out one decision of reconcile. Every step is safe to repeat and safe to be killed in."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from lakeward.backends.base import Backend, Job, launch_folder
from lakeward.control.look import Connect, Facts
from lakeward.control.resources import conf
from lakeward.errors import LakewardError
from lakeward.registry import drivers, events, leases, restarts, streams
from lakeward.runtime import Launch as LaunchFile
from lakeward.runtime import Runtime
from lakeward.spec.settings import Settings
from lakeward.streams import restart
from lakeward.streams.failures import FailureClass, classify, exit_words
from lakeward.streams.reconcile import Adopt, Bury, Decision, Kill, Launch, Nothing
from lakeward.streams.words import listed

log = structlog.get_logger(__name__)

_TAIL_BYTES = 4000
_MUTTERED = ("WARNING:", "OpenJDK 64-Bit Server VM warning:", "Picked up JAVA_TOOL_OPTIONS:")


@dataclass(frozen=True)
class Done:
    """What was done about one driver: `act` is launched | adopted | buried | killed | failed | skipped."""

    driver: str
    act: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Actor:
    """Carries out decisions.

    Attributes:
        connect: opens a transaction on the registry.
        settings: gives the project's settings; asked only when something is launched.
        chance: gives a float in [0, 1), for jitter.
    """

    connect: Connect
    runtime: Runtime
    backend: Backend
    settings: Callable[[], Settings]
    chance: Callable[[], float]

    def do(self, decision: Decision, facts: Facts) -> Done | None:
        """Carry out one decision; None when there was nothing to do."""
        match decision:
            case Launch():
                done = self._launch(decision, facts)
            case Adopt():
                done = self._adopt(decision)
            case Bury():
                done = self._bury(decision, facts)
            case Kill():
                done = self._kill(decision)
            case Nothing():
                return None
            case _:
                raise AssertionError(f"unknown decision {decision!r}")
        log.info(done.text, driver=done.driver, act=done.act, **done.fields)
        return done

    def _launch(self, decision: Launch, facts: Facts) -> Done:
        name, token = decision.driver, secrets.token_hex(16)
        with self.connect() as connection:
            if not drivers.intend(connection, name, token=token, previous=decision.previous, backend=self.backend.name):
                return Done(name, "skipped", f"Driver {name} is being launched by somebody else")
        specs = [facts.generations[item].spec for item in decision.streams if item in facts.generations]
        launch = LaunchFile(
            driver=name,
            token=token,
            folder=launch_folder(self.runtime.drivers, name),
            runtime=self.runtime,
            conf=conf(specs, self.settings().driver(name)),
        )
        try:
            job = self.backend.start(launch)
        except LakewardError as error:
            return self._could_not_start(decision, token, error, facts)
        with self.connect() as connection:
            drivers.started(connection, name, token, handle=dict(job.handle or {}), host=job.host, log=job.log)
            events.record(
                connection,
                "driver",
                name,
                "launched",
                f"Launched for {listed(list(decision.streams))}: {decision.reason}",
                handle=dict(job.handle or {}),
                log=job.log,
            )
        pid = (job.handle or {}).get("pid")
        return Done(
            name,
            "launched",
            f"Launched driver {name} as process {pid} for {listed(list(decision.streams))}: {decision.reason}",
            {"pid": pid, "log": job.log},
        )

    def _could_not_start(self, decision: Launch, token: str, error: LakewardError, facts: Facts) -> Done:
        with self.connect() as connection:
            drivers.exited(connection, decision.driver, token, exit_code=None, error=str(error))
            attempt = self._fail(connection, decision.driver, FailureClass.INFRA, str(error), None, facts, ())
        return Done(decision.driver, "failed", f"{error.what}: {error.why}; {attempt.why}", {"next": error.next})

    def _adopt(self, decision: Adopt) -> Done:
        name, job = decision.driver, decision.job
        with self.connect() as connection:
            drivers.started(connection, name, job.token, handle=dict(job.handle or {}), host=job.host, log=job.log)
            events.record(connection, "driver", name, "adopted", decision.reason, handle=dict(job.handle or {}))
        pid = (job.handle or {}).get("pid")
        return Done(name, "adopted", f"Adopted driver {name}, process {pid}: {decision.reason}", {"pid": pid})

    def _kill(self, decision: Kill) -> Done:
        name, job = decision.driver, decision.job
        gone = self.backend.kill(job)
        pid = (job.handle or {}).get("pid")
        text = f"Killed process {pid} of driver {name}: {decision.reason}"
        if not gone:
            text = f"Process {pid} of driver {name} is still there after SIGKILL: {decision.reason}"
        with self.connect() as connection:
            events.record(connection, "driver", name, "killed", text, pid=pid, gone=gone)
        return Done(name, "killed" if gone else "failed", text, {"pid": pid})

    def _bury(self, decision: Bury, facts: Facts) -> Done:
        name, job = decision.driver, decision.job
        with self.connect() as connection:
            row = drivers.find(connection, name)
            if row is None or row.token != decision.token:
                return Done(name, "skipped", f"Driver {name} was launched anew meanwhile")
            last = dict(job.exit) if job is not None and job.exit is not None else {}
            code = row.exit_code if row.exit_code is not None else last.get("exit_code")
            error = str(row.error or last.get("error") or _last_words(job) or "")
            if row.state != "exited":
                drivers.exited(connection, name, row.token, exit_code=code, error=error or None)
            hosted = [item.id for item in facts.streams if item.driver == name]
            leases.release(connection, "driver", [name], row.token)
            leases.release(connection, "stream", hosted, row.token)
            how = decision.reason if row.handle is None else exit_words(code)
            text = f"Driver {name} {how}" if row.handle is not None else f"Driver {name}: {how}"
            if error:
                text += f": {error.strip().splitlines()[0]}"
            if not decision.wanted or code == 0:
                events.record(connection, "driver", name, "exited", text, exit_code=code)
                return Done(name, "buried", text, {"exit_code": code})
            kind = (
                FailureClass(last["failure_class"])
                if last.get("failure_class")
                else classify(text=error, exit_code=code)
            )
            blame = [str(last["stream"])] if last.get("stream") in hosted else hosted
            attempt = self._fail(connection, name, kind, text, code, facts, blame)
            events.record(
                connection, "driver", name, "failed", f"{text}; {attempt.why}", exit_code=code, failure_class=kind.value
            )
        return Done(name, "buried", f"{text}; {attempt.why}", {"failure_class": kind.value, "exit_code": code})

    def _fail(
        self,
        connection: Any,
        name: str,
        kind: FailureClass,
        text: str,
        code: int | None,
        facts: Facts,
        blame: Sequence[str],
    ) -> restart.Attempt:
        """Record a failure and what follows; a failure nobody can wait out makes its streams wait for a person."""
        attempt = restart.decide(
            kind,
            previous=facts.failures.get((name, None)),
            committing_s=_committing_s(name, facts),
            random=self.chance,
        )
        delay: timedelta | None = attempt.delay
        wanted = {item.id for item in facts.streams if item.desired == "running"}
        if delay is None:
            to_blame = wanted.intersection(blame)
            for stream in to_blame:
                reason = {
                    "reason": kind.value,
                    "what": text.splitlines()[0],
                    "why": attempt.why,
                    "next": f"lakeward streams logs {stream}, then lakeward streams start {stream}",
                }
                streams.block(connection, stream, reason)
                events.record(
                    connection, "stream", stream, "blocked", f"Waits for a person: {reason['what']}", **reason
                )
            if not to_blame:
                delay = restart.BASE  # nobody is left to wait for a person: trying again in circles helps nobody
            elif wanted - to_blame:
                delay = timedelta(0)  # the other streams of this driver have done nothing wrong
        restarts.record(
            connection,
            driver=name,
            stream=None,
            failure_class=kind.value,
            error=text,
            attempt=attempt.number,
            delay=delay,
            exit_code=code,
        )
        return attempt


def _committing_s(name: str, facts: Facts) -> float:
    """For how long the streams of a driver committed batches since its launch, in seconds."""
    row = facts.drivers.get(name)
    if row is None:
        return 0.0
    committed = [
        seen.committed_at
        for item in facts.streams
        if item.driver == name
        and (seen := facts.observations.get(item.id)) is not None
        and seen.committed_at is not None
    ]
    return max(((moment - row.launched_at).total_seconds() for moment in committed), default=0.0)


def _last_words(job: Job | None) -> str:
    """The last line a driver printed that left no `exit.json`, e.g. an import error."""
    if job is None or not job.log:
        return ""
    try:
        with (Path(job.log) / "stdout.log").open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    spoken = (line.strip() for line in reversed(lines))
    # What every JVM mutters at its start explains no death.
    return next((line for line in spoken if line and not line.startswith(_MUTTERED)), "")[:500]
