"""Operations: what a person asks of a stream, carried out as one finite, repeatable step and told in sentences.

An operation writes what is wanted and then only watches: whoever is killed half way leaves a stream that goes where
it was sent. The waiting reconciles by itself now and then, so it works with Airflow down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import structlog
from sqlalchemy import Connection

from lakeward.backends.base import Backend, Life
from lakeward.control import look
from lakeward.control.look import Connect, Facts
from lakeward.control.reconcile import backend_of, reconcile_once
from lakeward.errors import DependencyDown, LakewardError, Refused, TimedOut
from lakeward.registry import changes, events, operations, streams
from lakeward.registry.streams import Stream
from lakeward.runtime import Runtime
from lakeward.spec.settings import Settings
from lakeward.streams.health import State, Verdict, verdict
from lakeward.streams.words import span

log = structlog.get_logger(__name__)

RECONCILE_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
TELL_EVERY_S = 30.0
TIMEOUT_S = 300.0


class Operation(StrEnum):
    """The operations there are today."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"


@dataclass(frozen=True)
class Outcome:
    """How an operation ended: `result` is done | refused | failed | timed_out | skipped."""

    operation: str
    stream: str
    result: str
    detail: str


@dataclass(frozen=True)
class Operator:
    """Carries out operations on streams.

    Attributes:
        connect: opens a transaction on the registry.
        author: who asks.
        holder: who waits, as the reconcile lease names it.
        timeout_s: how long one wait may take.
        sleep: waits; given so that tests need no real time.
    """

    connect: Connect
    runtime: Runtime
    author: str
    holder: str
    backend: Backend | None = None
    settings: Settings | Callable[[], Settings] | None = None
    timeout_s: float = TIMEOUT_S
    sleep: Callable[[float], None] = time.sleep

    def run(
        self, operation: Operation, stream: str, *, comment: str = "", wait: bool = True, kill: bool = False
    ) -> Outcome:
        """Carry out one operation and, when asked, wait until it is done.

        Args:
            kill: (stop) end the driver's process when the stream has not stopped in time.

        Returns:
            the outcome, with `done` or `skipped`.

        Raises:
            SpecError: there is no such stream.
            Refused: it cannot be done now.
            TimedOut: it is still going on.
            LakewardError: it was tried and did not succeed.
        """
        with self.connect() as connection:
            row = streams.get(connection, stream)
            if row.removed_at is not None and operation is not Operation.STOP:
                raise Refused(
                    f"Stream {stream} cannot be started",
                    why="its file was removed and deployed",
                    next="lakeward deploy",
                )
            asked = operations.request(connection, stream, operation.value, author=self.author, comment=comment)
            changes.record(connection, "stream", stream, operation.value, author=self.author, comment=comment)
            events.record(
                connection,
                "stream",
                stream,
                operation.value,
                f"{self.author} asked to {operation.value}",
                comment=comment,
            )
            if operation is Operation.START:
                self._want(connection, row, "running")
            else:
                self._want(connection, row, "stopped")
        log.info(f"{self.author} asked to {operation.value} stream {stream}", was=row.state, comment=comment)
        try:
            detail = self._carry_out(operation, stream, wait=wait, kill=kill)
        except LakewardError as error:
            result = (
                "timed_out" if isinstance(error, TimedOut) else "refused" if isinstance(error, Refused) else "failed"
            )
            self._finish(asked, result, f"{error.what}: {error.why}")
            raise
        self._finish(asked, "done", detail)
        log.info(f"Stream {stream}: {detail}", operation=operation.value, result="done")
        return Outcome(operation.value, stream, "done", detail)

    def _carry_out(self, operation: Operation, stream: str, *, wait: bool, kill: bool) -> str:
        begun = time.monotonic()
        if operation is Operation.START:
            if not wait:
                self._reconcile()
                return "asked to run; its driver is launched by reconcile if it does not run yet"
            return self._until(stream, _started, "started", begun)
        if operation is Operation.STOP:
            if not wait:
                return "asked to stop at the end of its running batch"
            return self._stop(stream, begun, kill=kill)
        detail = self._stop(stream, begun, kill=kill)
        log.info(f"Stream {stream}: {detail}; starting it again")
        with self.connect() as connection:
            self._want(connection, streams.get(connection, stream), "running")
        if not wait:
            self._reconcile()
            return f"{detail}; asked to run again"
        return self._until(stream, _started, "started again", time.monotonic())

    def _stop(self, stream: str, begun: float, *, kill: bool) -> str:
        try:
            return self._until(stream, _stopped, "stopped", begun)
        except TimedOut:
            if not kill:
                raise
        self._kill(stream)
        return self._until(stream, _stopped, "stopped by killing its driver", begun, more_s=30.0)

    def _until(
        self,
        stream: str,
        reached: Callable[[Facts, Stream, Verdict], bool],
        word: str,
        begun: float,
        *,
        more_s: float = 0.0,
    ) -> str:
        """Look until `reached` says yes.

        Raises:
            Refused: the stream waits for a person.
            TimedOut: not in time.
        """
        deadline = begun + self.timeout_s + more_s
        reconciled = told = float("-inf")
        last: State | None = None
        while True:
            now = time.monotonic()
            if now - reconciled >= RECONCILE_EVERY_S:
                self._reconcile()
                reconciled = time.monotonic()
            facts, row, seen = self._see(stream)
            if reached(facts, row, seen):
                return f"{word} in {span(now - begun)}: {seen.why}"
            if seen.state is State.BLOCKED and row.blocked is not None:
                raise Refused(
                    f"Stream {stream} waits for a person",
                    why=str(row.blocked.get("why") or seen.why),
                    next=str(row.blocked.get("next") or f"lakeward streams status {stream}"),
                )
            if now >= deadline:
                raise TimedOut(
                    f"Stream {stream} was not {word.split(' by ')[0]} in {span(now - begun)}",
                    why=f"it is {seen.state}: {seen.why}",
                    next=f"lakeward streams status {stream}",
                )
            if seen.state is not last or now - told >= TELL_EVERY_S:
                log.info(f"Stream {stream} is {seen.state}: {seen.why}", waited_s=round(now - begun))
                last, told = seen.state, now
            self.sleep(LOOK_EVERY_S)

    def _see(self, stream: str) -> tuple[Facts, Stream, Verdict]:
        with self.connect() as connection:
            facts = look.read(connection)
            row = streams.get(connection, stream)
        found = look.ask(self.backend or backend_of(self.runtime), facts)
        fresh = next((item for item in facts.streams if item.id == stream), row)
        return facts, fresh, verdict(look.sight(facts, found, fresh))

    def _reconcile(self) -> None:
        try:
            reconcile_once(self.connect, self.runtime, self.backend, holder=self.holder, settings=self.settings)
        except DependencyDown as error:
            log.warning(f"{error.what}: {error.why}")

    def _kill(self, stream: str) -> None:
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

    @staticmethod
    def _want(connection: Connection, row: Stream, desired: str) -> None:
        streams.set_desired(connection, [row.id], desired)
        if desired == "running" and row.desired != "running":
            streams.set_state(connection, row.id, State.STARTING.value, "asked to run")

    def _finish(self, asked: int, result: str, detail: str) -> None:
        with self.connect() as connection:
            operations.finish(connection, asked, result, detail)


def _started(facts: Facts, row: Stream, seen: Verdict) -> bool:
    """It landed a batch since, or runs with nothing to land."""
    return seen.state in (State.HEALTHY, State.LAGGING, State.COMPLETED)


def _stopped(facts: Facts, row: Stream, seen: Verdict) -> bool:
    """Its query has ended: it gave its lease back, or its process is gone."""
    return seen.state is State.STOPPED
