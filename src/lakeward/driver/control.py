"""The control loop: about once a second, compare what is wanted with what runs, decide, act."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from lakeward.connectors.kafka import position
from lakeward.driver import decide as deciding
from lakeward.driver.decide import Bury, Drain, Exit, Finish, Seen, Start
from lakeward.driver.failing import Failure, Failures
from lakeward.driver.lag import Watched
from lakeward.driver.link import Link
from lakeward.driver.recorder import Recorder
from lakeward.driver.running import Running
from lakeward.driver.starting import Starter
from lakeward.driver.wanted import Wanted
from lakeward.errors import DependencyDown, Fenced, SpecError
from lakeward.streams.failures import EXIT_FENCED, FailureClass

_log = structlog.get_logger(__name__)

EVERY_S = 1.0
DRAIN_S = 600.0
"""How long a batch may take to finish when its stream is stopped."""
ENDING_DRAIN_S = 60.0
"""The same when the whole process was asked to end: whoever asked will not wait for ever."""


@dataclass(frozen=True)
class End:
    """How the driver ended, for `exit.json` and the registry."""

    code: int
    why: str
    failure_class: str | None = None
    stream: str | None = None
    batch_id: int | None = None


@dataclass
class Control:
    """One a driver. `ending` is set from outside (SIGTERM)."""

    starter: Starter
    link: Link
    recorder: Recorder
    failures: Failures
    ending: threading.Event = field(default_factory=threading.Event)
    _running: dict[str, Running] = field(default_factory=dict)
    _draining: dict[str, float] = field(default_factory=dict)
    _fenced: End | None = None
    _at: dict[str, dict[str, str]] = field(default_factory=dict)

    def loop(self) -> End:
        """Run until there is nothing left to do, or the driver is fenced."""
        while True:
            began = time.monotonic()
            end = self.step()
            if end is not None:
                return end
            if self.ending.is_set():
                time.sleep(0.1)
            else:
                self.ending.wait(max(0.05, EVERY_S - (time.monotonic() - began)))

    def step(self) -> End | None:
        """One turn; the end if it is over."""
        picture, taken = self.link.picture()
        wanted = frozenset(picture.run) if picture is not None else frozenset()
        waiting = self.failures.waiting(taken, wanted)
        unleased = frozenset(name for name in wanted if name not in self._running and not self.link.leased(name))
        seen = {name: self._seen(each) for name, each in self._running.items()}
        for action in deciding.decide(picture, seen, ending=self.ending.is_set(), waiting=waiting | unleased):
            match action:
                case Exit(code, why):
                    if code == EXIT_FENCED:
                        self.kill_all()
                        return End(code, why, str(FailureClass.FENCED))
                    return End(code, why)
                case Start(each):
                    self._start(each)
                case Drain(stream, why):
                    self._drain(stream, why)
                case Finish(stream):
                    self._finish(stream)
                case Bury(stream):
                    self._bury(stream)
            if self._fenced is not None:
                self.kill_all()
                return self._fenced
        self.link.busy = frozenset(self._running)
        return None

    def kill_all(self) -> None:
        """Stop every query at once: this driver must not write any more."""
        for each in self._running.values():
            each.gate.close()
        for each in list(self._running.values()):
            each.kill()
        self._running.clear()

    def watched(self) -> Sequence[Watched]:
        """What the lag thread measures: sources of running streams, from the first batch on."""
        found = []
        for name, each in list(self._running.items()):
            ends = self._at.get(name, {})
            for inlet in each.function.flow.inlets:
                at = ends.get(inlet.name)
                if inlet.spec.kafka is not None and at is not None:
                    topics = _topics(at, inlet.spec.kafka.topics)
                    found.append(Watched(name, inlet.name, inlet.bootstrap, topics, at))
        return found

    def landed_up_to(self, stream: str, ends: dict[str, str]) -> None:
        """Remember where a stream stands, for its lag."""
        self._at[stream] = ends

    def _seen(self, each: Running) -> Seen:
        since = self._draining.get(each.stream)
        draining = since is not None
        limit = ENDING_DRAIN_S if self.ending.is_set() else DRAIN_S
        return Seen(
            generation=each.wanted.generation,
            active=each.active,
            draining=draining,
            drained=draining and each.drained(),
            overdue=since is not None and time.monotonic() - since > limit,
            exact=each.exact,
            leased=self.link.leased(each.stream),
            stale=not draining and each.function.flow.stateful and each.references.changed(each.session),
        )

    def _start(self, wanted: Wanted) -> None:
        self.link.busy |= {wanted.stream}
        try:
            self._running[wanted.stream] = self.starter.start(wanted)
        except Exception as error:  # noqa: BLE001  # named boundary: one stream that cannot start is not the others' end
            self._failed(wanted, Failure(_told(wanted, error), text=f"{type(error).__name__}: {error}"))
            return
        running = self._running[wanted.stream]
        self.recorder.note(wanted.stream, query_id=str(running.query.id), query_state="running", error=None)
        self.recorder.event(
            "stream",
            wanted.stream,
            "started",
            f"started generation {wanted.generation}, checkpoint {running.finding}",
            generation=wanted.generation,
            query_id=str(running.query.id),
        )

    def _drain(self, stream: str, why: str) -> None:
        _log.info("stream stops at the next batch boundary", stream=stream, why=why)
        self._draining[stream] = time.monotonic()
        self._running[stream].gate.close()

    def _finish(self, stream: str) -> None:
        running = self._running.pop(stream)
        waited = time.monotonic() - self._draining.pop(stream)
        clean = running.stop(timeout_s=0)
        _log.info("stream stopped", stream=stream, at_a_boundary=clean, waited_s=round(waited, 1))
        self.recorder.note(stream, query_state="stopped", error=None)
        text = (
            "stopped between two batches" if clean else "stopped inside a batch, which runs again after the next start"
        )
        self.recorder.event("stream", stream, "stopped", text, waited_s=round(waited, 1))

    def _bury(self, stream: str) -> None:
        """The query ended by itself. A batch turned away by our own stop ends it too; that is no failure."""
        running = self._running[stream]
        failure = running.failure()
        if failure is None:
            self._draining.setdefault(stream, time.monotonic())
            self._finish(stream)
            return
        del self._running[stream]
        self._draining.pop(stream, None)
        running.release()
        error, text = failure
        first = running.function.first_commit
        self._failed(
            running.wanted,
            Failure(error, text, running.gate.inside_last, 0.0 if first is None else time.monotonic() - first),
        )

    def _failed(self, wanted: Wanted, failure: Failure) -> None:
        if failure.failure_class is FailureClass.FENCED or isinstance(failure.error, Fenced):
            self._fenced = End(EXIT_FENCED, failure.words, str(FailureClass.FENCED), wanted.stream, failure.batch_id)
            _log.error("driver is fenced", stream=wanted.stream, error=failure.words)
            return
        picture, _ = self.link.picture()
        with suppress(DependencyDown):
            self.failures.handle(wanted, failure, picture.now if picture is not None else None)


def _told(wanted: Wanted, error: Exception) -> BaseException:
    """A stored spec that this version cannot read is a problem of the spec, said like one."""
    if not isinstance(error, ValidationError):
        return error
    first = error.errors(include_input=False, include_url=False)[0]
    return SpecError(
        f"Generation {wanted.generation} of stream {wanted.stream} cannot be read by this version",
        why=f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}",
        next="lakeward deploy",
    )


def _topics(at: str, declared: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(topic) for topic in declared) or tuple(position.parse(at))
