"""Work on a claimed check run: heartbeats, events, the answer. Used by the checker and by a requester without one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from lakeward.platform.errors import DependencyDown, LakewardError, TimedOut, expect
from lakeward.quality.runs.process import CheckingProcess, Emit, Ended
from lakeward.quality.runs.request import Request, error_line
from lakeward.registry import check_runs
from lakeward.registry.check_runs import CLAIMS, DONE, FAILED, TIMED_OUT, Answer, Claim, Claimed, Fenced, Line

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from lakeward.quality.results.records import RunDocument

Connect = Callable[[], AbstractContextManager["Connection"]]

TTL = timedelta(seconds=15)
"""Others may take a run over this long after its last heartbeat."""
BEAT_S = 2.0
_LEAST_S = 1.0


class Heartbeats:
    """Heartbeats from a thread of their own, with the events since the last one.

    An unreachable registry is no reason to stop: no other process can take the run over meanwhile.

    Args:
        beat: sends one heartbeat, with the lines; returns False when the claim is lost.
        lost: called once, when the claim is lost.
    """

    def __init__(self, beat: Callable[[list[Line]], bool], lost: Callable[[], None], every_s: float = BEAT_S) -> None:
        self._beat, self._lost, self._every_s = beat, lost, every_s
        self._lines: list[Line] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="beats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def emit(self, level: str, text: str, fields: Mapping[str, object]) -> None:
        """Keep an event for the next heartbeat."""
        with self._lock:
            self._lines.append((level, text, fields))

    def take(self) -> list[Line]:
        """The events that are not sent yet."""
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def _go_on(self) -> None:
        while not self._over.wait(self._every_s):
            lines = self.take()
            try:
                alive = self._beat(lines)
            except DependencyDown:
                with self._lock:
                    self._lines[:0] = lines
                continue
            if not alive:
                self._lost()
                return


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of the work on a run.

    Attributes:
        state: as in the registry; `asked` when it was given back.
        results: the results of `CheckingProcess.ask`.
        error: why there are no results.
    """

    state: str
    results: list[RunDocument] = field(default_factory=list)
    error: LakewardError | None = None


@dataclass
class RunWork:
    """The work on one claimed run.

    Attributes:
        connect: opens a transaction on the registry.
        alive: sends further heartbeats together with that of the claim.
        again: whether a run whose process ended is given back for a retry; otherwise the error is its answer.
    """

    connect: Connect
    ttl: timedelta = TTL
    alive: Callable[[Connection], None] = lambda connection: None
    again: bool = False

    def do(self, claimed: Claimed, process: CheckingProcess, request: Request, emit: Emit) -> RunOutcome:
        """Let the process work, and record the answer of the run.

        Args:
            request: complete except for the claim.
            emit: receives each event in addition to the registry.

        Raises:
            Fenced: another process has taken the run over; no answer was recorded.
            DependencyDown: the registry does not answer; the results are recorded already, or will be computed again.
        """
        claim = claimed.claim
        claimed_request = request.model_copy(update={"claim": claim, "left": claimed.session_id})

        def beat(lines: list[Line]) -> bool:
            with self.connect() as connection:
                self.alive(connection)
                return check_runs.beat(connection, claim, self.ttl, lines)

        with Heartbeats(beat, process.hang_up) as beats:

            def emit_both(level: str, text: str, fields: Mapping[str, object]) -> None:
                beats.emit(level, text, fields)
                emit(level, text, fields)

            worked = self._run_request(process, claimed_request, max(claimed.remaining_s, _LEAST_S), emit_both)
        # The heartbeats have stopped: one after the answer would find the claim ended, and close a warm process.
        with self.connect() as connection:
            recorded = self._answer(connection, claim, worked, beats.take())
        if not recorded:
            raise Fenced(
                f"Check run {claim.run}: fenced. Another process took it over",
                why="The heartbeat of this process had expired.",
                next="lakeward quality show TABLE",
                code="LW-5019",
            )
        return worked

    def _run_request(self, process: CheckingProcess, request: Request, limit_s: float, emit: Emit) -> RunOutcome:
        claim = expect(request.claim, "the claim of the run")
        try:
            return RunOutcome(DONE, process.ask(request, timeout_s=limit_s, emit=emit))
        except TimedOut as error:
            return RunOutcome(TIMED_OUT, error=error)
        except Ended as error:
            return RunOutcome(check_runs.REQUESTED if self.again and claim.number < CLAIMS else FAILED, error=error)
        except LakewardError as error:
            return RunOutcome(FAILED, error=error)

    def _answer(self, connection: Connection, claim: Claim, worked: RunOutcome, lines: list[Line]) -> bool:
        if worked.state == check_runs.REQUESTED:
            return check_runs.give_back(connection, claim, lines)
        answer: Answer = error_line(worked.error) if worked.error else {"results": worked.results}
        return check_runs.finish(connection, claim, worked.state, answer, lines)


def withdraw(connect: Connect, run: int) -> None:
    """Record that the requester no longer waits, if the registry answers."""
    with contextlib.suppress(DependencyDown), connect() as connection:
        check_runs.withdraw(connection, run)
