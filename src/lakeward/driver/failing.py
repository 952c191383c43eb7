"""Failure handling of a stream: failure class, back-off or block, and their records."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from lakeward.engine.assignment import Assignment
from lakeward.platform.errors import Awaited, Blocked, DependencyDown, LakewardError, Poison, expect_type
from lakeward.platform.failures import FailureClass, Judgement, judge, signature
from lakeward.registry import events, observations, restarts, streams
from lakeward.registry.streams import Block
from lakeward.supervision.decide import repeated, restart

_log = structlog.get_logger(__name__)

AWAITED = timedelta(seconds=60)
"""The longest pause before what does not exist yet is asked for again: asking starts no query."""
_PY4J = "An error occurred while calling"
Write = Callable[[Connection], None]
Offsets = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Failure:
    """One failure of one stream.

    Attributes:
        error: the exception.
        text: full text of the failure, for its classification.
        batch_id: the batch that failed; None if no batch ran.
        committing_s: how long this start had been landing batches.
        offsets: offsets of that batch: source name -> {start, end}; None if unknown.
    """

    error: BaseException
    text: str = ""
    batch_id: int | None = None
    committing_s: float = 0.0
    offsets: Offsets | None = None

    @property
    def judgement(self) -> Judgement:
        return judge(error=self.error, text=self.text)

    @property
    def words(self) -> str:
        """The error for people: Lakeward's errors in full, others by their first lines."""
        if isinstance(self.error, LakewardError):
            return str(self.error)
        lines = self.text.splitlines()
        first = str(self.error).strip().splitlines()[:1] or [type(self.error).__name__]
        if lines and first[0].startswith(_PY4J):
            first = lines[:1]  # py4j's own sentence names only the called object
        causes = [line for line in lines if line and line.split(": ", 1)[-1] not in first[0]]
        return "\n".join([first[0][:500], *(f"  caused by {line[:300]}" for line in causes[-2:])])


@dataclass
class _Parked:
    until: float | None  # monotonic; None: blocked
    write: Write | None
    written: float | None = None


@dataclass
class _History:
    attempt: int = 0
    signature: tuple[object, ...] = ()
    same: int = 0


@dataclass
class Failures:
    """Keeps the failures of this process and delays restarts of failed streams.

    Each failure is recorded in the registry; while the registry is down the pauses are kept here. `log` returns the
    last lines of the driver's log about a stream.
    """

    driver: str
    connect: Callable[[], AbstractContextManager[Connection]]
    base: timedelta = restart.BASE
    chance: Callable[[], float] = random.random
    log: Callable[[str], Sequence[str]] = lambda stream: ()
    _parked: dict[str, _Parked] = field(default_factory=dict)
    _history: dict[str, _History] = field(default_factory=dict)

    def handle(self, assignment: Assignment, failure: Failure, now: datetime | None) -> FailureClass:
        """Classify a failure, decide between back-off and block, and record it.

        Args:
            assignment: the stream's assignment.
            failure: the failure.
            now: database time; None if it was never known.
        """
        judged, stream = failure.judgement, assignment.stream
        if stream not in self._history:
            self._history[stream] = self._before(assignment, now)
        history = self._history[stream]
        met = (failure.batch_id, failure.offsets, signature(failure.words))
        history.same = history.same + 1 if met == history.signature else 1
        history.signature = met
        if isinstance(failure.error, Blocked):
            self._park(stream, None, self._block(stream, failure, judged, history.attempt + 1, failure.error.reason))
            return judged.failure_class
        attempt = restart.next_attempt(
            judged.failure_class,
            previous=history if history.attempt else None,
            committing_s=failure.committing_s,
            random=self.chance,
            policy=_policy(assignment, self.base, failure.error),
            same_batch_failures=history.same if failure.batch_id is not None else 0,
            same_failures=history.same,
            cause=judged.cause,
        )
        judged = Judgement(attempt.failure_class, judged.cause)
        history.attempt = attempt.number
        if attempt.delay is None:
            reason = str(judged.failure_class)
            self._park(stream, None, self._block(stream, failure, judged, attempt.number, reason, history.same))
        else:
            moment = None if now is None else now + attempt.delay
            until = time.monotonic() + attempt.delay.total_seconds()
            self._park(stream, until, self._retry(stream, failure, judged, attempt, moment, history.same))
        return judged.failure_class

    def _before(self, assignment: Assignment, now: datetime | None) -> _History:
        """Failure history from an earlier process: a driver restarted for another stream must not reset the count."""
        try:
            with self.connect() as connection:
                lines = events.newest(connection, "stream", assignment.stream)
        except DependencyDown:
            return _History()
        last = next((line for line in reversed(lines) if line.kind == "failed" and "same" in line.fields), None)
        if last is None:
            return _History()
        known = last.fields
        recent = now is not None and now - last.at < _policy(assignment, self.base).reset_after
        return _History(
            attempt=expect_type(known["attempt"], int, "attempt of a failed event") if recent else 0,
            signature=(known["batch"], known["offsets"], signature(str(known["error"]))),
            same=expect_type(known["same"], int, "same of a failed event"),
        )

    def after(self, stream: str, write: Write) -> None:
        """Delay starts of a stream until `write` is recorded and the desired state was read again."""
        self._park(stream, None, write)

    def waiting(self, taken: float) -> frozenset[str]:
        """The streams that must not start now, whatever the desired state says.

        Args:
            taken: when the newest desired state was requested. Only one from after our own record includes the pause or
                the block.
        """
        self._write()
        for stream, parked in list(self._parked.items()):
            confirmed = parked.written is not None and taken > parked.written
            local = parked.written is None and parked.until is not None and time.monotonic() >= parked.until
            if confirmed or local:
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

    def _record(self, connection: Connection, stream: str, failure: Failure, judged: Judgement) -> None:
        observations.record(
            connection,
            stream,
            query_state="failed",
            error={
                "class": str(judged.failure_class),
                "cause": str(judged.cause) if judged.cause else None,
                "error": failure.words,
                "batch_id": failure.batch_id,
                "offsets": failure.offsets,
            },
        )

    def _block(
        self, stream: str, failure: Failure, judged: Judgement, number: int, reason: str, same: int = 1
    ) -> Write:
        detail: Block = {"reason": reason, **_block_text(stream, failure, judged, same)}
        detail["batch"], detail["offsets"] = failure.batch_id, failure.offsets
        kind = str(judged.failure_class)
        _log.error("stream blocked", stream=stream, failure_class=kind, **detail)
        detail["error"], detail["log"] = failure.words, list(self.log(stream))

        def write(connection: Connection) -> None:
            self._record(connection, stream, failure, judged)
            streams.block(connection, stream, detail)
            restarts.record(
                connection,
                driver=self.driver,
                stream=stream,
                failure_class=kind,
                error=failure.words,
                attempt=number,
                delay=None,
            )
            events.record(connection, "stream", stream, "blocked", f"blocked: {detail['what']}", **detail)

        return write

    def _retry(
        self,
        stream: str,
        failure: Failure,
        judged: Judgement,
        attempt: restart.Attempt,
        moment: datetime | None,
        same: int,
    ) -> Write:
        pause = round(attempt.delay.total_seconds(), 1) if attempt.delay is not None else None
        kind, cause = str(judged.failure_class), str(judged.cause) if judged.cause else None
        _log.error(
            "stream failed, will restart",
            stream=stream,
            failure_class=kind,
            cause=cause,
            error=failure.words,
            batch=failure.batch_id,
            offsets=failure.offsets,
            attempt=attempt.number,
            pause_s=pause,
        )

        def write(connection: Connection) -> None:
            self._record(connection, stream, failure, judged)
            if moment is not None:
                streams.set_run_after(connection, stream, moment)
            restarts.record(
                connection,
                driver=self.driver,
                stream=stream,
                failure_class=kind,
                error=failure.words,
                attempt=attempt.number,
                delay=attempt.delay,
            )
            named = f"{kind}, {cause}" if cause else kind
            text = f"failed ({named}), attempt {attempt.number} in {pause} s: {failure.words.splitlines()[0]}"
            fields = {"failure_class": kind, "cause": cause, "batch": failure.batch_id, "offsets": failure.offsets}
            fields |= {"error": failure.words, "attempt": attempt.number, "same": same}
            events.record(connection, "stream", stream, "failed", text, **fields)

        return write


def _block_text(stream: str, failure: Failure, judged: Judgement, same: int) -> Block:
    """The what, why and next of a block."""
    error, words = failure.error, failure.words.splitlines()
    start = f"lakeward streams start {stream}"
    if judged.failure_class is FailureClass.POISON and failure.batch_id is not None:
        mended = (
            f"correct the transform in conf/streams/{stream}.yaml, then: lakeward deploy; "
            f"lakeward streams upgrade {stream} --wait"
        )
        way = error.next if isinstance(error, Poison) else mended  # empty: nothing but a skip helps
        return {
            "what": f"Batch {failure.batch_id} of stream {stream} failed {same} times in the same way",
            "why": "\n".join([words[0], *(f"  {line.strip()}" for line in words[1:4])]),
            "next": f"{way}{'; or ' if way else ''}skip its records: "
            f"lakeward streams skip-batch {stream} --batch {failure.batch_id} "
            f'--comment "batch {failure.batch_id} fails"   shows them and asks',
        }
    if judged.failure_class is FailureClass.CONFIG and (way_out := repeated.next_step(judged.cause, stream)):
        return {
            "what": f"Stream {stream} failed {same} times in the same way: {judged.cause}",
            "why": "\n".join([words[0], *(f"  {line.strip()}" for line in words[1:4])]),
            "next": way_out,
        }
    if isinstance(error, LakewardError):
        return {"what": error.headline, "why": error.why, "next": error.next or f"correct it, then: {start}"}
    return {"what": words[0], "why": "\n".join(words[1:]), "next": f"correct it, then: {start}"}


def _policy(assignment: Assignment, base: timedelta, error: BaseException | None = None) -> restart.Policy:
    try:
        found = restart.Policy.of(assignment.spec.restart)
    except ValueError:  # the spec itself is not valid
        found = restart.Policy()
    cap = min(found.cap, AWAITED) if isinstance(error, Awaited) else found.cap
    return restart.Policy(base=base, cap=cap, reset_after=found.reset_after)
