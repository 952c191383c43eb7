"""Working on a check run that was claimed: signs of life, what it tells, its answer. For a checker and for an asker
that finds none."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from lakeward.platform.errors import DependencyDown, LakewardError, TimedOut, expect
from lakeward.quality.runs.process import CheckingProcess, Ended, Tell
from lakeward.quality.runs.request import Request, error_line
from lakeward.registry import check_runs
from lakeward.registry.check_runs import CLAIMS, DONE, FAILED, TIMED_OUT, Claim, Claimed, Fenced, Line

if TYPE_CHECKING:
    from sqlalchemy import Connection

Connect = Callable[[], AbstractContextManager["Connection"]]

TTL = timedelta(seconds=15)
"""So long after the last sign of life others may take a run over."""
BEAT_S = 2.0
_LEAST_S = 1.0


class Beats:
    """Signs of life from a thread of its own, with what was told since the last one.

    A registry that is away is no reason to stop: nobody can take the run over meanwhile.

    Args:
        beat: gives one sign, with the lines; False when it is over with us.
        lost: called once, when it is.
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

    def tell(self, level: str, text: str, fields: dict[str, Any]) -> None:
        """Keep an event for the next sign."""
        with self._lock:
            self._lines.append((level, text, fields))

    def take(self) -> list[Line]:
        """What was told and is not sent yet."""
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
class Worked:
    """How the work on a run ended.

    Attributes:
        state: as in the registry; `asked` when it was given back.
        results: what `CheckingProcess.ask` gave.
        error: why there are none.
    """

    state: str
    results: list[dict[str, Any]] = field(default_factory=list)
    error: LakewardError | None = None


@dataclass
class Work:
    """The work on one claimed run.

    Attributes:
        connect: opens a transaction on the registry.
        alive: further signs of life to give with those of the claim.
        again: whether a run whose process ended is given back to be begun again; otherwise that is its answer.
    """

    connect: Connect
    ttl: timedelta = TTL
    alive: Callable[[Connection], None] = lambda connection: None
    again: bool = False

    def do(self, claimed: Claimed, process: CheckingProcess, request: Request, tell: Tell) -> Worked:
        """Have the process work, and answer the run.

        Args:
            request: complete but for the claim.
            tell: takes each event beside the registry.

        Raises:
            Fenced: another has taken the run over; nothing was answered.
            DependencyDown: the registry is away; what was found is recorded, or will be found again.
        """
        claim = claimed.claim
        asked = request.model_copy(update={"claim": claim, "left": claimed.session_id})

        def beat(lines: list[Line]) -> bool:
            with self.connect() as connection:
                self.alive(connection)
                return check_runs.beat(connection, claim, self.ttl, lines)

        with Beats(beat, process.hang_up) as beats:

            def told(level: str, text: str, fields: dict[str, Any]) -> None:
                beats.tell(level, text, fields)
                tell(level, text, fields)

            worked = self._asked(process, asked, max(claimed.left_s, _LEAST_S), told)
        # No sign of life any more: one after the answer would find the claim over, and hang up a warm process.
        with self.connect() as connection:
            held = self._answer(connection, claim, worked, beats.take())
        if not held:
            raise Fenced(f"Check run {claim.run} was taken over", why="its heartbeat had run out", code="LW-5019")
        return worked

    def _asked(self, process: CheckingProcess, request: Request, limit_s: float, tell: Tell) -> Worked:
        claim = expect(request.claim, "the claim of the run")
        try:
            return Worked(DONE, process.ask(request, timeout_s=limit_s, tell=tell))
        except TimedOut as error:
            return Worked(TIMED_OUT, error=error)
        except Ended as error:
            return Worked(check_runs.ASKED if self.again and claim.number < CLAIMS else FAILED, error=error)
        except LakewardError as error:
            return Worked(FAILED, error=error)

    def _answer(self, connection: Connection, claim: Claim, worked: Worked, lines: list[Line]) -> bool:
        if worked.state == check_runs.ASKED:
            return check_runs.give_back(connection, claim, lines)
        answer = error_line(worked.error) if worked.error else {"results": worked.results}
        return check_runs.finish(connection, claim, worked.state, answer, lines)


def withdrawn(connect: Connect, run: int) -> None:
    """Say that nobody waits any more, if the registry can be reached."""
    with contextlib.suppress(DependencyDown), connect() as connection:
        check_runs.withdraw(connection, run)
