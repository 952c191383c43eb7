"""Control loop of a driver: about once a second, compare desired state with running queries, decide, act."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog
from pydantic import ValidationError

from lakeward.connectors.python import packages
from lakeward.driver import completed, thread_dumps, watchdog
from lakeward.driver import decide as deciding
from lakeward.driver.backpressure import Backpressure
from lakeward.driver.decide import Drain, Exit, FinalizeQuery, Finish, ObservedQuery, Start
from lakeward.driver.executors import ExecutorSizing
from lakeward.driver.failing import Failure, Failures, Offsets
from lakeward.driver.jvm import Jvm
from lakeward.driver.lag import Watched
from lakeward.driver.lag_targets import LagTargets
from lakeward.driver.maintenance_pause import MaintenancePause
from lakeward.driver.recorder import Recorder
from lakeward.driver.registry_link import RegistryLink
from lakeward.driver.running import Running
from lakeward.driver.starting import QueryLauncher
from lakeward.driver.tasks import Task, Tasks
from lakeward.driver.watchdog import Watchdog
from lakeward.engine import jvm_errors
from lakeward.engine.assignment import Assignment
from lakeward.engine.checkpoint import files
from lakeward.platform import machine
from lakeward.platform.errors import DependencyDown, SpecError, expect
from lakeward.platform.failures import EXIT_FENCED, EXIT_STOPPED, FailureClass, judge

_log = structlog.get_logger(__name__)

EVERY_S = 1.0
DRAIN_S = 600.0
"""How long a batch may take to finish when its stream is stopped."""
START_S = 300.0
"""A start that takes longer than this is reported with a thread dump."""
KILL_S = 15.0
"""How long a fenced driver waits for its queries to stop before its process ends."""
ENDING_DRAIN_S = 60.0
"""How long a batch may take to finish when the whole process must end."""


@dataclass(frozen=True)
class DriverEnd:
    """How the driver ended, for `exit.json` and the registry."""

    code: int
    why: str
    failure_class: str | None = None
    stream: str | None = None
    batch_id: int | None = None
    offsets: Offsets | None = None


@dataclass
class Control:
    """Control loop of one driver. `ending` is set by a signal (SIGTERM).

    Args:
        jvm: the JVM of this process.
        folder: folder of the launch; thread dumps go there.
        tasks: starts and stops queries.
        standing: positions of the streams, for their lag.
        sizing: of the executors by lag, if the driver has them.
    """

    starter: QueryLauncher
    link: RegistryLink
    recorder: Recorder
    failures: Failures
    jvm: Jvm
    folder: Path
    tasks: Tasks = field(default_factory=Tasks)
    ending: threading.Event = field(default_factory=threading.Event)
    lag_targets: LagTargets = field(default_factory=LagTargets)
    maintenance: MaintenancePause = field(default_factory=MaintenancePause)
    backpressure: Backpressure = field(default_factory=Backpressure)
    sizing: ExecutorSizing | None = None
    _running: dict[str, Running] = field(default_factory=dict)
    _draining: dict[str, float] = field(default_factory=dict)
    _end: DriverEnd | None = None
    _ending_since: float | None = None
    _watchdog: Watchdog = field(default_factory=lambda: Watchdog(machine.patience))
    _begun: dict[str, datetime] = field(default_factory=dict)
    """Stream -> database time at, or shortly before, its last start."""

    def loop(self) -> DriverEnd:
        """Run until no stream is to run, or the driver is fenced."""
        while True:
            began = time.monotonic()
            end = self.step()
            if end is not None:
                return end
            if self.ending.is_set():
                time.sleep(0.1)
            else:
                self.ending.wait(max(0.05, EVERY_S - (time.monotonic() - began)))

    def step(self) -> DriverEnd | None:
        """One turn of the loop; returns how the driver ends, or None."""
        self.link.turned = time.monotonic()
        died = self.jvm.death_reason()
        if died is not None:
            return self.jvm_died(died)
        for task in self.tasks.finished():
            self._task_ended(task)
        self._watch()
        if self._end is None:
            self._act()
        if self._end is None:
            self.link.busy = frozenset(self._running) | self.tasks.streams
            self.link.pausing = self.maintenance.turn(self._running, *self.link.desired_state())
            self.backpressure.turn(self._running, *self.link.desired_state())
            if self.sizing is not None:
                self.sizing.turn(self._running, self.lag_targets)
        elif self._end.code != EXIT_STOPPED:
            self.kill_all()
        return self._end

    def _act(self) -> None:
        """Carry out the decided actions, until one ends the driver."""
        desired, taken = self.link.desired_state()
        required = frozenset(desired.run) if desired is not None else frozenset()
        waiting = self.failures.waiting(taken) | self.tasks.streams
        unleased = frozenset(name for name in required if name not in self._running and not self.link.leased(name))
        seen = {name: self._seen(running) for name, running in self._running.items()}
        for action in deciding.decide(
            desired, seen, ending=self.ending.is_set(), waiting=waiting | unleased, packages=packages.active()
        ):
            match action:
                case Exit(code, why):
                    if code == EXIT_FENCED:
                        self._end = DriverEnd(code, why, str(FailureClass.FENCED))
                    elif not self.tasks.streams or self._ending_for() > ENDING_DRAIN_S:
                        self._end = DriverEnd(code, why)
                case Start(assignment):
                    self._begun[assignment.stream] = expect(desired, "what is to run: a start was decided from it").now
                    self._start(assignment)
                case Drain(stream, why):
                    self._drain(stream, why)
                case Finish(stream):
                    self._finish(stream)
                case FinalizeQuery(stream):
                    self._finalize(stream)
            if self._end is not None:
                return

    def _ending_for(self) -> float:
        """Seconds since the process was asked to end, 0 if it was not; limits how long a hanging start is awaited."""
        if not self.ending.is_set():
            return 0.0
        self._ending_since = self._ending_since or time.monotonic()
        return time.monotonic() - self._ending_since

    def kill_all(self) -> None:
        """Stop every query at once: this driver must not write any more. Waits at most `KILL_S`."""
        for running in self._running.values():
            running.gate.close()
        killing = [threading.Thread(target=running.kill, daemon=True) for running in self._running.values()]
        for thread in killing:
            thread.start()
        end = time.monotonic() + KILL_S
        for thread in killing:
            thread.join(max(0.0, end - time.monotonic()))
        self._running.clear()

    def jvm_died(self, words: str) -> DriverEnd:
        """The end of a driver whose JVM died. A batch is blamed only if it was the only one running."""
        # A batch may have failed because of the JVM's end before this loop noticed it.
        inside = [
            running for running in self._running.values() if running.gate.inside is not None or running.function.failure
        ]
        kind = str(judge(text=words).failure_class)
        if len(inside) != 1:
            return DriverEnd(1, words, kind)
        [affected] = inside
        batch, begun = affected.unfinished_batch(files.LocalFiles())
        return DriverEnd(1, words, kind, affected.stream, affected.gate.inside if batch is None else batch, begun)

    def watched(self) -> Sequence[Watched]:
        """The positions that the lag thread measures."""
        return self.lag_targets.watched(list(self._running.values()))

    def positions(self) -> Sequence[Watched]:
        """The landed positions of the running streams."""
        return self.lag_targets.positions(list(self._running.values()))

    def _seen(self, started: Running) -> ObservedQuery:
        since = self._draining.get(started.stream)
        draining = since is not None
        limit = ENDING_DRAIN_S if self.ending.is_set() else DRAIN_S
        return ObservedQuery(
            generation=started.assignment.generation,
            active=started.active,
            draining=draining,
            drained=draining and started.drained(),
            overdue=since is not None and time.monotonic() - since > limit,
            exact=started.exact,
            leased=self.link.leased(started.stream),
            unbatched=started.assignment.spec.trigger.unbatched,
            stale=not draining and started.function.flow.stateful and started.references.changed(started.session),
        )

    def _watch(self) -> None:
        """Interrupt queries that hang; the other streams keep running."""
        now = time.monotonic()
        for name, running in list(self._running.items()):
            quiet = self._watchdog.seconds_without_progress(running, self.lag_targets.waiting(name), now)
            if quiet is not None:
                self._interrupt(name, running, quiet)

        for task in self.tasks.slow("start", START_S):
            dump = thread_dumps.write(self.folder, f"{task.stream}-start", self.jvm)
            text = (
                f"its start has been hanging for {START_S:.0f} s; the other streams keep running; thread dump: {dump}"
            )
            _log.error("stream start hangs", stream=task.stream, dump=dump)
            self.recorder.event("stream", task.stream, "hung", text, dump=dump)

    def _interrupt(self, stream: str, running: Running, quiet_s: float) -> None:
        del self._running[stream]
        self._draining.pop(stream, None)
        batch = running.gate.inside
        _log.error("hung batch interrupted", stream=stream, batch=batch, quiet_s=round(quiet_s))

        def work() -> tuple[Failure, bool]:
            name = f"{stream}-{batch if batch is not None else 'between-batches'}"
            dump = thread_dumps.write(self.folder, name, self.jvm)
            error = watchdog.hung(running, quiet_s, dump)
            text = f"{error.what}; thread dump: {dump}"
            self.recorder.event("stream", stream, "hung", text, batch=batch, dump=dump, quiet_s=round(quiet_s))
            number, begun = running.unfinished_batch(running.files)
            failure = Failure(error, batch_id=batch if number is None else number, offsets=begun)
            return failure, running.interrupt()

        self.tasks.begin("interrupt", stream, work, running)

    def _start(self, assignment: Assignment) -> None:
        self.link.busy |= {assignment.stream}
        self.tasks.begin("start", assignment.stream, lambda: self.starter.start(assignment), assignment)

    def _task_ended(self, task: Task) -> None:
        """Handle the end of a start, a stop or an interruption."""
        match task:
            case Task(kind="start", error=None):
                self._started(task.subject, task.result)
            case Task(kind="start", error=Exception() as error):
                text = jvm_errors.of_error(error)
                self._failed(task.subject, Failure(_spec_error(task.subject, error), text=text))
            case Task(error=Exception() as error):
                self._end = DriverEnd(1, f"Stream {task.stream}: stop failed: {error}", str(FailureClass.INFRA))
            case Task(kind="stop"):
                clean, waited = task.result
                self._stopped(task.subject, clean, waited)
            case Task():
                failure, stopped = task.result
                self._interrupted(task.subject, failure, stopped)

    def _started(self, assignment: Assignment, running: Running) -> None:
        self._running[assignment.stream] = running
        self.lag_targets.began(assignment.stream, running.at)
        self.recorder.note(assignment.stream, query_id=str(running.query.id), query_state="running", error=None)
        self.recorder.event(
            "stream",
            assignment.stream,
            "started",
            f"started generation {assignment.generation}, checkpoint {running.finding}",
            generation=assignment.generation,
            query_id=str(running.query.id),
        )
        for note in running.notes:
            self.recorder.event("stream", assignment.stream, "noted", note)

    def _stopped(self, running: Running, clean: bool, waited: float) -> None:
        stream = running.stream
        self.lag_targets.ended(stream)
        if running.active:
            self._stuck(running, "its query does not stop")
            return
        _log.info("stream stopped", stream=stream, at_a_boundary=clean, waited_s=round(waited, 1))
        self.recorder.note(stream, query_state="stopped", error=None)
        text = (
            "stopped between two batches" if clean else "stopped inside a batch, which runs again after the next start"
        )
        self.recorder.event("stream", stream, "stopped", text, waited_s=round(waited, 1))

    def _interrupted(self, running: Running, failure: Failure, stopped: bool) -> None:
        if stopped:
            self._failed(running.assignment, failure)
        else:
            self._stuck(running, f"{failure.words.splitlines()[0]}, and its query does not stop", failure)

    def _stuck(self, running: Running, why: str, failure: Failure | None = None) -> None:
        """End this process, because a query cannot be stopped inside it; the next launch continues."""
        words = f"Stream {running.stream} is stuck (hung batch): {why}; only a new process helps"
        _log.error("driver ends, query stuck", stream=running.stream, why=why)
        self._end = DriverEnd(
            1,
            words,
            str(judge(text=words).failure_class),
            running.stream,
            failure.batch_id if failure is not None else running.gate.inside,
            failure.offsets if failure is not None else None,
        )

    def _drain(self, stream: str, why: str) -> None:
        _log.info("stream draining", stream=stream, why=why)
        self._draining[stream] = time.monotonic()
        self._running[stream].drain()

    def _finish(self, stream: str) -> None:
        running = self._running.pop(stream)
        now = time.monotonic()
        waited = now - self._draining.pop(stream, now)
        self._watchdog.forget(stream)
        self.tasks.begin("stop", stream, lambda: (running.stop(timeout_s=0), waited), running)

    def _finalize(self, stream: str) -> None:
        """Handle a query that ended by itself. A batch refused by a closed gate ends it too, without a failure."""
        running = self._running[stream]
        if running.completed:
            self._completed(stream)
            return
        failure = running.failure()
        if failure is None:
            self._draining.setdefault(stream, time.monotonic())
            self._finish(stream)
            return
        del self._running[stream]
        self._draining.pop(stream, None)
        self._watchdog.forget(stream)
        running.release()
        error, text = failure
        first = running.function.first_commit
        batch, begun = running.unfinished_batch(running.files)
        self._failed(
            running.assignment,
            Failure(error, text, batch, 0.0 if first is None else time.monotonic() - first, begun),
        )

    def _completed(self, stream: str) -> None:
        """All available records have landed: the stream is done until a person or its schedule starts it."""
        running = self._running.pop(stream)
        self._draining.pop(stream, None)
        self.lag_targets.ended(stream)
        self._watchdog.forget(stream)
        running.release()
        batches, rows = running.function.landed
        _log.info("stream completed", stream=stream, batches=batches, rows=rows)
        # Recorded twice: otherwise older values in the recorder's queue would overwrite this one.
        self.recorder.note(stream, query_state=completed.COMPLETED, error=None)
        record = completed.record(self.link.token, stream, self._begun[stream], batches, rows)
        with suppress(DependencyDown):
            self.failures.after(stream, record)

    def _failed(self, assignment: Assignment, failure: Failure) -> None:
        kind = failure.judgement.failure_class
        if kind is FailureClass.FENCED:
            self._end = DriverEnd(
                EXIT_FENCED, failure.words, str(kind), assignment.stream, failure.batch_id, failure.offsets
            )
            _log.error("driver fenced", stream=assignment.stream, error=failure.words)
            return
        desired, _ = self.link.desired_state()
        with suppress(DependencyDown):
            self.failures.handle(assignment, failure, desired.now if desired is not None else None)


def _spec_error(assignment: Assignment, error: Exception) -> BaseException:
    """The error; a stored spec that this version cannot parse becomes a `SpecError`."""
    if not isinstance(error, ValidationError):
        return error
    first = error.errors(include_input=False, include_url=False)[0]
    return SpecError(
        f"Cannot read generation {assignment.generation} of stream {assignment.stream} with this version of Lakeward",
        why=f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}",
        next="lakeward deploy",
        code="LW-2401",
    )
