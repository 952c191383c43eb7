"""What follows a stream's failure: its class, the pause or the block, and the record of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Connection

from lakeward.driver.wanted import Wanted
from lakeward.errors import Blocked, DependencyDown, LakewardError
from lakeward.registry import events, observations, restarts, streams
from lakeward.streams import restart
from lakeward.streams.failures import FailureClass, classify

_log = structlog.get_logger(__name__)

Write = Callable[[Connection], None]


@dataclass(frozen=True)
class Failure:
    """One failure of one stream.

    Attributes:
        error: the exception.
        text: everything known in words, for the class.
        batch_id: the batch that failed, None if it was none's.
        committing_s: for how long this start had landed batches.
    """

    error: BaseException
    text: str = ""
    batch_id: int | None = None
    committing_s: float = 0.0

    @property
    def failure_class(self) -> FailureClass:
        return classify(error=self.error, text=self.text)

    @property
    def words(self) -> str:
        """The error as people read it: our own in full, others by their first lines."""
        if isinstance(self.error, LakewardError):
            return str(self.error)
        first = str(self.error).strip().splitlines()[:1] or [type(self.error).__name__]
        causes = [line for line in self.text.splitlines() if line and line.split(": ", 1)[-1] not in first[0]]
        return "\n".join([first[0][:500], *(f"  caused by {line[:300]}" for line in causes[-2:])])


@dataclass
class _Parked:
    until: float | None  # monotonic; None: a person is needed
    write: Write | None
    written: float | None = None


@dataclass
class _History:
    attempt: int = 0
    failed_at: float = 0.0
    signature: tuple[int | None, str] = (None, "")
    same: int = 0


@dataclass
class Failures:
    """Remembers the failures of this process and keeps failed streams from being started too early.

    The registry hears of each; while it is away the pauses are kept here.
    """

    driver: str
    connect: Callable[[], AbstractContextManager[Connection]]
    base: timedelta = restart.BASE
    chance: Callable[[], float] = random.random
    _parked: dict[str, _Parked] = field(default_factory=dict)
    _history: dict[str, _History] = field(default_factory=dict)

    def handle(self, wanted: Wanted, failure: Failure, now: datetime | None) -> FailureClass:
        """Decide what follows, remember it and tell the registry.

        Args:
            wanted: the stream.
            failure: what happened.
            now: database time, None while it was never known.
        """
        kind, stream = failure.failure_class, wanted.stream
        history = self._history.setdefault(stream, _History())
        signature = (failure.batch_id, failure.words)
        history.same = history.same + 1 if signature == history.signature else 1
        history.signature = signature
        if isinstance(failure.error, Blocked):
            self._park(stream, None, self._block(stream, failure, kind, history.attempt + 1, failure.error.reason))
            return kind
        attempt = restart.decide(
            kind,
            previous=_Previous(history.attempt, time.monotonic() - history.failed_at) if history.attempt else None,
            committing_s=failure.committing_s,
            random=self.chance,
            policy=_policy(wanted, self.base),
            same_batch_failures=history.same if failure.batch_id is not None else 0,
        )
        history.attempt, history.failed_at = attempt.number, time.monotonic()
        if attempt.delay is None:
            self._park(stream, None, self._block(stream, failure, kind, attempt.number, str(kind)))
        else:
            moment = None if now is None else now + attempt.delay
            until = time.monotonic() + attempt.delay.total_seconds()
            self._park(stream, until, self._retry(stream, failure, kind, attempt, moment))
        return kind

    def waiting(self, taken: float, run: frozenset[str]) -> frozenset[str]:
        """The streams that may not be started now.

        Args:
            taken: when the newest picture was asked for: one from before our own record proves nothing.
            run: the streams it wants to run now.
        """
        self._write()
        for stream, parked in list(self._parked.items()):
            heard = parked.written is not None and taken > parked.written
            local = parked.written is None and parked.until is not None and time.monotonic() >= parked.until
            if (heard and (stream in run or parked.until is None)) or local:
                del self._parked[stream]
        return frozenset(self._parked)

    def _park(self, stream: str, until: float | None, write: Write) -> None:
        self._parked[stream] = _Parked(until, write)
        self._write()

    def _write(self) -> None:
        for parked in self._parked.values():
            if parked.write is None:
                continue
            try:
                with self.connect() as connection:
                    parked.write(connection)
            except DependencyDown:
                return
            parked.write, parked.written = None, time.monotonic()

    def _record(self, connection: Connection, stream: str, failure: Failure, kind: FailureClass) -> None:
        observations.record(
            connection,
            stream,
            query_state="failed",
            error={"class": str(kind), "error": failure.words, "batch_id": failure.batch_id, "offsets": None},
        )

    def _block(self, stream: str, failure: Failure, kind: FailureClass, number: int, reason: str) -> Write:
        error = failure.error
        after = f"correct it, then: lakeward streams start {stream}"
        if isinstance(error, LakewardError):
            told = (error.what, error.why, error.next or after)
        else:
            told = (failure.words.splitlines()[0], "\n".join(failure.words.splitlines()[1:]), after)
        detail: dict[str, Any] = {"reason": reason, **dict(zip(("what", "why", "next"), told, strict=True))}
        detail["batch"] = failure.batch_id
        _log.error("stream blocked", stream=stream, failure_class=str(kind), **detail)

        def write(connection: Connection) -> None:
            self._record(connection, stream, failure, kind)
            streams.block(connection, stream, detail)
            restarts.record(
                connection,
                driver=self.driver,
                stream=stream,
                failure_class=str(kind),
                error=failure.words,
                attempt=number,
                delay=None,
            )
            events.record(connection, "stream", stream, "blocked", f"blocked: {detail['what']}", **detail)

        return write

    def _retry(
        self, stream: str, failure: Failure, kind: FailureClass, attempt: restart.Attempt, moment: datetime | None
    ) -> Write:
        pause = round(attempt.delay.total_seconds(), 1) if attempt.delay is not None else None
        _log.error(
            "stream failed, tries again",
            stream=stream,
            failure_class=str(kind),
            error=failure.words,
            batch=failure.batch_id,
            attempt=attempt.number,
            pause_s=pause,
        )

        def write(connection: Connection) -> None:
            self._record(connection, stream, failure, kind)
            if moment is not None:
                streams.set_run_after(connection, stream, moment)
            restarts.record(
                connection,
                driver=self.driver,
                stream=stream,
                failure_class=str(kind),
                error=failure.words,
                attempt=attempt.number,
                delay=attempt.delay,
            )
            text = f"failed ({kind}), attempt {attempt.number} in {pause} s: {failure.words.splitlines()[0]}"
            events.record(connection, "stream", stream, "failed", text, failure_class=str(kind), batch=failure.batch_id)

        return write


@dataclass(frozen=True)
class _Previous:
    attempt: int
    age_s: float


def _policy(wanted: Wanted, base: timedelta) -> restart.Policy:
    try:
        found = restart.Policy.of(wanted.spec.restart)
    except ValueError:  # the spec itself is what is wrong
        found = restart.Policy()
    return restart.Policy(base=base, cap=found.cap, reset_after=found.reset_after)
