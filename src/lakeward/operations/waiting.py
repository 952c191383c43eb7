"""The one waiting loop: look until something is so, reconcile now and then, say what is seen, keep the ticket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from lakeward.operations.context import TIMEOUT_S, Context, ObservedStream
from lakeward.platform.errors import LakewardError, Refused, TimedOut
from lakeward.platform.text import span
from lakeward.registry import operations, streams
from lakeward.registry.operations import Ticket
from lakeward.supervision.abandoned_operations import RESUME
from lakeward.supervision.decide.health import State

log = structlog.get_logger(__name__)

RECONCILE_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
TELL_EVERY_S = 30.0
KILLED_S = 30.0


@dataclass(frozen=True)
class Waiting:
    """Waits on behalf of one operation, as long as that holds the stream."""

    context: Context
    ticket: Ticket

    @property
    def stream(self) -> str:
        return self.ticket.stream

    def keep(self) -> None:
        """Show that this operation is alive.

        Raises:
            Refused: somebody took the stream over meanwhile.
        """
        with self.context.connect() as connection:
            if not operations.renew(connection, self.ticket):
                raise Refused(
                    f"This operation lost stream {self.stream}",
                    why="it did not show any life for too long, and somebody else took over",
                    next=f"lakeward streams events {self.stream}",
                    code="LW-2094",
                )

    def until(
        self,
        reached: Callable[[ObservedStream], bool],
        word: str,
        *,
        usual_s: float = TIMEOUT_S,
        more_s: float = 0.0,
        bears: Callable[[ObservedStream], bool] = lambda seen: False,
    ) -> str:
        """Look until `reached` says yes; how it came about, in words.

        Args:
            word: what it is then, e.g. `stopped`.
            usual_s: how long this usually takes at most; the context's own limit wins.
            more_s: on top of either.
            bears: whether a stream that waits for a person is borne, because somebody will see to it.

        Raises:
            Refused: the stream waits for a person.
            TimedOut: not in time.
        """
        begun = time.monotonic()
        limit = (usual_s if self.context.timeout_s is None else self.context.timeout_s) + more_s
        reconciled = told = float("-inf")
        last: State | None = None
        while True:
            now = time.monotonic()
            self.keep()
            if now - reconciled >= RECONCILE_EVERY_S:
                self.context.reconcile()
                reconciled = time.monotonic()
            seen = self.context.see(self.stream)
            why = seen.verdict.why
            if reached(seen):
                return f"{word} in {span(now - begun)}: {why}"
            if seen.row.blocked is not None and seen.row.desired == "running" and not bears(seen):
                raise Refused(
                    f"Stream {self.stream} waits for a person",
                    why=str(seen.row.blocked.get("why") or why),
                    next=str(seen.row.blocked.get("next") or f"lakeward streams status {self.stream}"),
                    code="LW-2095",
                )
            if now - begun >= limit:
                raise TimedOut(
                    f"Stream {self.stream} was not {word.split(' by ')[0]} in {span(now - begun)}",
                    why=f"it is {seen.verdict.state}: {why}",
                    next=f"lakeward streams status {self.stream}",
                    code="LW-2096",
                )
            if seen.verdict.state is not last or now - told >= TELL_EVERY_S:
                log.info(f"Stream {self.stream} is {seen.verdict.state}: {why}", waited_s=round(now - begun))
                last, told = seen.verdict.state, now
            self.context.sleep(LOOK_EVERY_S)

    def started(self, word: str = "started") -> str:
        """Wait until it landed a batch since, or runs with nothing to land."""
        return self.until(lambda seen: seen.verdict.state in (State.HEALTHY, State.LAGGING, State.COMPLETED), word)

    def stopped(self, *, kill: bool = False) -> str:
        """Wait until its query has ended; when asked, kill its driver if that takes too long, or cannot be seen."""
        if not (kill and self.context.see(self.stream).out_of_reach):
            try:
                return self.until(_stopped, "stopped")
            except TimedOut:
                if not kill:
                    raise
        how = self.context.kill(self.stream)
        return self.until(_stopped, f"stopped by {how}", usual_s=0.0, more_s=KILLED_S)

    def drain(self, *, kill: bool = False) -> bool:
        """Stop the stream for a while, for what must not be done under a running query; whether it is to run again.

        Whoever dies from here on is followed by somebody who starts it again.

        Raises:
            TimedOut: it did not stop in time; it is wanted running again, and nothing else was touched.
        """
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
            again = row.desired == "running"
            if again:
                operations.note(connection, self.ticket.id, **{RESUME: True})
                streams.set_desired(connection, [self.stream], "stopped")
        try:
            log.info(f"Stream {self.stream}: {self.stopped(kill=kill)}")
        except (LakewardError, KeyboardInterrupt):  # the operation ends with it: nobody else would start the stream
            if again:
                self.resume()
            raise
        return again

    def resume(self) -> None:
        """Want it running again as it was, with whatever blocked it: the operation changed nothing."""
        with self.context.connect() as connection:
            streams.set_desired(connection, [self.stream], "running", keep_block=True)


def _stopped(seen: ObservedStream) -> bool:
    """Its query has ended: it gave its lease back, or its process is gone."""
    if seen.row.desired != "running" and seen.verdict.state in (State.COMPLETED, State.LAGGING):
        return True  # there was nothing to stop
    return seen.verdict.state is State.STOPPED or (seen.verdict.state is State.BLOCKED and seen.quiet)
