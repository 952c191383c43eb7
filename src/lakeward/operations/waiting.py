"""Waiting loop of operations: observe until a condition holds, reconcile, log the state, renew the ticket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from lakeward.operations.context import TIMEOUT_S, Context, ObservedStream
from lakeward.platform.errors import LakewardError, Refused, TimedOut
from lakeward.platform.text import span
from lakeward.registry import operations, streams
from lakeward.registry.generations import Generation
from lakeward.registry.operations import Ticket
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.abandoned_operations import RESUME
from lakeward.supervision.decide import remedy
from lakeward.supervision.decide.health import State

log = structlog.get_logger(__name__)

RECONCILE_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
REPORT_EVERY_S = 30.0
KILLED_S = 30.0


@dataclass(frozen=True)
class Waiting:
    """Waits on behalf of one operation while it holds the stream's ticket."""

    context: Context
    ticket: Ticket

    @property
    def stream(self) -> str:
        return self.ticket.stream

    def renew(self) -> None:
        """Renew the ticket.

        Raises:
            Refused: another operation took the stream over.
        """
        with self.context.connect() as connection:
            if not operations.renew(connection, self.ticket):
                raise Refused(
                    f"Lost the operation lock on stream {self.stream}",
                    why="the ticket was not renewed in time, and another operation took over",
                    next=f"lakeward streams events {self.stream}",
                    code="LW-2094",
                )

    def wait_until(
        self,
        reached: Callable[[ObservedStream], bool],
        word: str,
        *,
        usual_s: float = TIMEOUT_S,
        more_s: float = 0.0,
        tolerates: Callable[[ObservedStream], bool] = lambda seen: False,
        missing: Callable[[ObservedStream], str | None] = lambda seen: None,
    ) -> str:
        """Observe the stream until `reached` is true; returns how it was reached, as a clause.

        Args:
            word: the state that is reached, e.g. `stopped`.
            usual_s: usual limit; the context's own limit wins.
            more_s: added to either limit.
            tolerates: whether the wait goes on although the stream is blocked, e.g. because it is rolled back.
            missing: what is still missing, in words, if the state of the stream does not say it.

        Raises:
            Refused: the stream is blocked.
            TimedOut: the limit is over.
        """
        begun = time.monotonic()
        limit = (usual_s if self.context.timeout_s is None else self.context.timeout_s) + more_s
        reconciled = logged_at = float("-inf")
        last: State | None = None
        while True:
            now = time.monotonic()
            self.renew()
            if now - reconciled >= RECONCILE_EVERY_S:
                self.context.reconcile()
                reconciled = time.monotonic()
            seen = self.context.observe(self.stream)
            why = seen.verdict.why
            if reached(seen):
                return f"{word} in {span(now - begun)}: {why}"
            if seen.row.blocked is not None and seen.row.desired == "running" and not tolerates(seen):
                raise Refused(
                    f"Stream {self.stream} is blocked",
                    why=str(seen.row.blocked.get("why") or why),
                    next=next_of(seen.row, seen.facts.generations.get(self.stream)),
                    code="LW-2095",
                )
            if now - begun >= limit:
                raise TimedOut(
                    f"Stream {self.stream} was not {word.split(' by ')[0]} in {span(now - begun)}",
                    why=f"the stream is {seen.verdict.state}: {why}{_clause(missing(seen))}",
                    next=f"lakeward streams status {self.stream}",
                    code="LW-2096",
                )
            if seen.verdict.state is not last or now - logged_at >= REPORT_EVERY_S:
                if now - begun >= RECONCILE_EVERY_S:  # a short wait needs no words
                    line = f"{self.stream} is {seen.verdict.state} after {span(now - begun)}: {why}"
                    self.context.say(line + _clause(missing(seen)))
                log.info(
                    "waiting for stream",
                    stream=self.stream,
                    state=str(seen.verdict.state),
                    why=why,
                    waited_s=round(now - begun),
                )
                last, logged_at = seen.verdict.state, now
            self.context.sleep(LOOK_EVERY_S)

    def started(self, word: str = "started") -> str:
        """Wait until the stream has landed a batch, or runs with nothing to land."""
        return self.wait_until(lambda seen: seen.runs, word)

    def stopped(self, *, kill: bool = False) -> str:
        """Wait until the query has ended; with `kill`, kill the driver if that takes too long or cannot be observed."""
        if not (kill and self.context.observe(self.stream).out_of_reach):
            try:
                return self.wait_until(_stopped, "stopped")
            except TimedOut:
                if not kill:
                    raise
        how = self.context.kill(self.stream)
        return self.wait_until(_stopped, f"stopped by {how}", usual_s=0.0, more_s=KILLED_S)

    def drain(self, *, kill: bool = False) -> bool:
        """Stop the stream for the time of the operation; returns whether it must run again.

        If this process dies, the next reconcile pass starts the stream again.

        Raises:
            TimedOut: the stream did not stop in time; its desired state is running again, nothing else was changed.
        """
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            restart = row.desired == "running"
            if restart:
                operations.note(connection, self.ticket.id, **{RESUME: True})
                streams.set_desired(connection, [self.stream], "stopped")
        try:
            log.info("stream drained", stream=self.stream, detail=self.stopped(kill=kill))
        except (LakewardError, KeyboardInterrupt):  # the operation ends here: nothing else would start the stream
            if restart:
                self.resume()
            raise
        return restart

    def resume(self) -> None:
        """Set the desired state to running again and keep a block: the operation changed nothing."""
        with self.context.connect() as connection:
            streams.set_desired(connection, [self.stream], "running", keep_block=True)


def next_of(row: Stream, generation: Generation | None) -> str:
    """What helps a blocked stream, from its block, its shape and the generation that waits.

    Args:
        generation: the one that it runs.
    """
    try:
        spec = None if generation is None else StreamSpec.model_validate(generation.spec)
    except ValueError:  # another version of Lakeward deployed it
        spec = None
    return remedy.of_block(row.id, row.blocked or {}, spec=spec, pending=row.pending_generation)


def _clause(missing: str | None) -> str:
    return "" if missing is None else f"; {missing}"


def _stopped(seen: ObservedStream) -> bool:
    """Whether the query has ended: its lease is released, or its process has ended."""
    if seen.row.desired != "running" and seen.verdict.state in (State.COMPLETED, State.LAGGING):
        return True  # nothing ran
    return seen.verdict.state is State.STOPPED or (seen.verdict.state is State.BLOCKED and seen.quiet)
