"""Health: the state of a stream, and the sentence that explains it. Pure.

Trend and age decide, thresholds are upper bounds: an idle stream (nothing waits at the source) is healthy, however old
its last batch is. A failed stream stays `restarting` until its next batch has landed, so that recovery is proven.
Observations from before the last start request do not count for this start.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakeward.platform.text import count, minute, moment, span
from lakeward.registry.backpressure import Level, TableBackpressure
from lakeward.registry.drivers import BURIED, Driver
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import Limits, silence_s
from lakeward.spec.model.types import Duration
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.schedule import last_due


class State(StrEnum):
    """Stream states of the command line contract."""

    STARTING = "starting"
    HEALTHY = "healthy"
    LAGGING = "lagging"
    STALLED = "stalled"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    COMPLETED = "completed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


TROUBLE = frozenset({State.STALLED, State.RESTARTING, State.BLOCKED, State.UNKNOWN})
"""The stream is down, or its state is not known: its Dag must not look green."""

SETTLED = frozenset({State.HEALTHY, State.LAGGING, State.STOPPED, State.COMPLETED})
"""States in which trouble is over. `starting` and `stopping` lead to one of these."""


SILENT_S = 60.0
"""A running driver sends a heartbeat every 2 s; without one for this long it counts as not answering."""


@dataclass(frozen=True)
class HealthInput:
    """Everything known about one stream at one moment, ages in database time.

    Attributes:
        stream: its row.
        limits: of the generation it runs.
        every: its trigger's interval; None where it has none.
        driver: the newest launch of the driver that hosts it; None if it was never launched.
        process: what is left of that launch, according to the backend.
        lease: the stream's own lease.
        observation: what the driver last reported about the query.
        failure: the newest failure of the stream or of its driver.
        now: the database's time.
        down: its dependency that does not answer, in words.
        unreachable: which part could not be asked, if `process` is unknown.
        thrash: why automatic restarts are suspended.
        schedule: its trigger's cron fields, for a stream that lands what is available and completes.
        max_state_rows: how many rows of state its spec allows.
        backpressure: the back-pressure of its table, whose maintenance is behind.
        late: what is wrong with its event times (`decide.lateness`).
    """

    stream: Stream
    limits: Limits
    driver: Driver | None
    process: Life
    lease: Lease | None
    observation: Observation | None
    failure: Restart | None
    now: datetime
    down: str | None = None
    unreachable: str = ""
    thrash: str | None = None
    every: Duration | None = None
    schedule: str | None = None
    max_state_rows: int | None = None
    backpressure: TableBackpressure | None = None
    late: str | None = None

    @property
    def stall_after_s(self) -> float:
        """How long records may wait without a batch, in seconds."""
        return silence_s(self.limits, self.every)


@dataclass(frozen=True)
class Verdict:
    """State and reason. `odd`: the stream could not be judged, because something about it cannot be read."""

    state: State
    why: str
    odd: bool = False


def idle(seen: Observation) -> bool:
    """Whether nothing waits at its sources. A known lag decides: a query that reported idle may be stuck in a batch by
    now.
    """
    if seen.least_records:
        return False
    return seen.query_state == "idle" if seen.lag_records is None else True


def waited_s(seen: Observation) -> float:
    """The longest time that the waiting records can have waited, in seconds; infinite if it is not known."""
    return float("inf") if seen.lag_s is None else seen.lag_s + seen.age_s


_WAITS = frozenset({State.STARTING, State.STALLED, State.RESTARTING})


def verdict(inputs: HealthInput) -> Verdict:
    """Judge one stream. If its dependency is down, the reason names the dependency first."""
    judged = _verdict(inputs)
    if judged.state in _WAITS and inputs.down is not None:
        return Verdict(judged.state, f"{inputs.down}; {judged.why}")
    if judged.state in (State.HEALTHY, State.LAGGING) and inputs.down is not None:
        judged = Verdict(judged.state, f"{judged.why}; {inputs.down}")
    if inputs.backpressure is not None and judged.state in (State.HEALTHY, State.LAGGING):
        judged = Verdict(judged.state, f"{judged.why}; {slowed(inputs.backpressure)}")
    if inputs.late is not None and judged.state in (State.HEALTHY, State.LAGGING):
        judged = Verdict(State.LAGGING, f"{inputs.late}; {judged.why}")
    grown = outgrown(inputs.observation, inputs.max_state_rows)
    if grown is not None and judged.state in (State.HEALTHY, State.LAGGING):
        return Verdict(judged.state, f"{judged.why}; {grown}")
    return judged


def slowed(pressed: TableBackpressure) -> str:
    """The back-pressure on a stream, in words."""
    if pressed.level is Level.RELEASED:
        return f"it was paused for the rewrite of its table and continues now: {pressed.why}"
    until = "it is paused until" if pressed.level is Level.HOLD else "it commits half as often until"
    return f"{until} the next rewrite of its table: {pressed.why}"


def outgrown(seen: Observation | None, most: int | None) -> str | None:
    """That a stream's state has more rows than its spec allows, in words; None otherwise."""
    if seen is None or seen.state_rows is None or most is None or seen.state_rows <= most:
        return None
    return f"its state has {count(seen.state_rows, 'row')}, more than max_rows of {most:,}"


def _verdict(inputs: HealthInput) -> Verdict:
    stream, lease = inputs.stream, inputs.lease
    if stream.blocked is not None:
        return Verdict(
            State.BLOCKED, str(stream.blocked.get("what") or stream.blocked.get("reason") or "waits for a person")
        )
    holds = lease is not None and lease.live
    if stream.desired != "running":
        if inputs.observation is not None and inputs.observation.query_state == "completed":
            return _completed(inputs, inputs.observation)
        if inputs.process is not Life.GONE and lease is not None and _same_launch(inputs):
            known = holds or inputs.process is not Life.UNKNOWN
            return Verdict(State.STOPPING, "waits for the running batch to end" if known else _unreachable(inputs))
        return Verdict(State.STOPPED, _stopped(inputs))
    if inputs.driver is None:
        return Verdict(State.STARTING, "waits for its driver to be launched")
    if inputs.process is Life.UNKNOWN and not holds:
        return Verdict(State.UNKNOWN, _unreachable(inputs))
    if inputs.process is Life.GONE or inputs.driver.ended:
        return _without_process(inputs)
    return _with_process(inputs, inputs.driver)


def _completed(inputs: HealthInput, seen: Observation) -> Verdict:
    """A completed run. Its schedule decides whether it is late: records that came since wait for the next run."""
    if inputs.schedule is not None:
        due = last_due(inputs.schedule, inputs.now)
        late = (inputs.now - due).total_seconds()
        if seen.at < due and late > inputs.limits.freshness.seconds:
            why = f"its run of {minute(due)} did not begin, due {span(late)} ago"
            return Verdict(State.LAGGING, f"{why}: is the Dag schedule__{inputs.stream.id} paused?")
    return Verdict(State.COMPLETED, f"all that was available has landed, {span(seen.age_s)} ago")


def _without_process(inputs: HealthInput) -> Verdict:
    failure, driver = inputs.failure, inputs.driver
    hold = inputs.stream.hold_until
    if hold is not None and hold > inputs.now:
        return Verdict(State.RESTARTING, f"its driver is gone; automatic restarts are held until {minute(hold)}")
    if inputs.thrash is not None and failure is not None:
        return Verdict(State.RESTARTING, f"{_first_line(failure.error)}; {inputs.thrash}")
    if failure is not None and driver is not None and failure.age_s <= min(driver.launched_s, _start_age(inputs)):
        return Verdict(State.RESTARTING, f"{_first_line(failure.error)}; {_next(failure, inputs.now)}")
    if driver is not None and driver.exit_code == 0:
        return Verdict(State.STARTING, "its driver ended on request; the next launch is due")
    if driver is not None and driver.state == BURIED:
        return Verdict(State.STARTING, "its driver ended while none of its streams was to run; the next launch is due")
    return Verdict(State.RESTARTING, f"its driver is gone, no heartbeat {_silence(inputs)}; the next launch is due")


def _with_process(inputs: HealthInput, driver: Driver) -> Verdict:
    stream, seen = inputs.stream, inputs.observation
    requested_s = _start_age(inputs)
    if seen is not None and seen.query_state == "failed" and seen.age_s < requested_s:
        text = _first_line(str((seen.error or {}).get("error") or "the query failed"))
        if stream.hold_until is not None and stream.hold_until > inputs.now:
            return Verdict(State.RESTARTING, f"{text}; automatic restarts are held until {minute(stream.hold_until)}")
        if stream.run_after is not None and stream.run_after > inputs.now:
            wait = (stream.run_after - inputs.now).total_seconds()
            return Verdict(State.RESTARTING, f"{text}; next attempt in {span(wait)}")
        return Verdict(State.RESTARTING, f"{text}; the next attempt is due")
    age = min(driver.launched_s, _failed_since(inputs), requested_s)
    if seen is not None and seen.query_state in ("stopped", "completed"):
        return _before_first_batch(inputs, driver, min(age, seen.age_s))
    if seen is None or seen.commit_age_s is None or seen.commit_age_s > age:
        return _before_first_batch(inputs, driver, age)
    return _silent(inputs, driver) or _by_progress(inputs, driver, seen)


def _silent(inputs: HealthInput, driver: Driver) -> Verdict | None:
    """The verdict about a driver that does not answer, e.g. a frozen one: what it reported last is no news."""
    holds = inputs.lease is not None and inputs.lease.live
    if holds or driver.age_s is None or driver.age_s <= SILENT_S:
        return None
    return Verdict(State.STALLED, f"its driver runs but sent no heartbeat for {span(driver.age_s)}")


def _by_progress(inputs: HealthInput, driver: Driver, seen: Observation) -> Verdict:
    limits, waiting, behind_s = inputs.limits, seen.least_records, seen.least_s
    # A batch in flight when the driver started cannot be older than the driver.
    commit = seen.commit_age_s if seen.commit_age_s is not None else driver.launched_s
    quiet = min(commit, driver.launched_s, waited_s(seen))
    nothing = idle(seen)
    if not nothing and quiet > inputs.stall_after_s:
        return Verdict(
            State.LAGGING if _paused(inputs) else State.STALLED, f"no batch for {span(quiet)} while {_wait(seen)}"
        )
    batch = "the last batch" if seen.batch_id is None else f"batch {seen.batch_id:,}"
    tail = "nothing waits" if nothing else _wait(seen)
    landed = Verdict(State.HEALTHY, f"{batch} landed {span(seen.commit_age_s)} ago; {tail}")
    if inputs.schedule is not None:
        return landed  # what it lands is as old as its schedule made it
    if limits.lag_records is not None and waiting is not None and waiting > limits.lag_records:
        return Verdict(State.LAGGING, f"{_wait(seen)}, more than the limit of {limits.lag_records:,}")
    if not nothing and behind_s is not None and behind_s > limits.freshness.seconds:
        return Verdict(
            State.LAGGING,
            f"the newest landed record is {span(behind_s)} behind its source, the limit is {limits.freshness};"
            f" {_wait(seen)}",
        )
    return landed


def _before_first_batch(inputs: HealthInput, driver: Driver, age: float) -> Verdict:
    """The driver runs, and no batch has landed for `age` seconds: since the launch, since the query failed, or since
    the start was requested.
    """
    seen = inputs.observation
    waited = float("inf")
    if seen is not None and seen.query_state in ("running", "idle") and seen.age_s <= age:
        waited = waited_s(seen)
        silent = _silent(inputs, driver)
        if silent is not None:
            return silent
        if idle(seen):
            return Verdict(State.HEALTHY, "it runs and nothing waits at the source")
        if seen.query_state == "idle" and waited <= inputs.stall_after_s:
            return Verdict(State.HEALTHY, f"it runs and had nothing to land; now {_wait(seen)}")
    if min(age, waited) > inputs.stall_after_s:
        waiting = f" while {_wait(seen)}" if seen is not None and seen.least_records else ""
        state = State.LAGGING if _paused(inputs) else State.STALLED
        return Verdict(state, f"no batch in the {span(age)} since it was started{waiting}")
    if inputs.failure is not None and _recovering(inputs):
        return Verdict(
            State.RESTARTING,
            f"{_first_line(inputs.failure.error)}; attempt {inputs.failure.attempt} runs for {span(age)}, no batch yet",
        )
    if age < driver.launched_s:
        return Verdict(State.STARTING, f"its start was requested {span(age)} ago in a running driver, no batch yet")
    return Verdict(State.STARTING, f"its driver was launched {span(driver.launched_s)} ago, no batch yet")


def _paused(inputs: HealthInput) -> bool:
    """Whether it lands nothing because of back-pressure, now or until just now: a restart would not help."""
    return inputs.backpressure is not None and inputs.backpressure.level in (Level.HOLD, Level.RELEASED)


def _start_age(inputs: HealthInput) -> float:
    """Seconds since the start was requested; infinite if that start is complete."""
    stream, seen = inputs.stream, inputs.observation
    since = (inputs.now - stream.since).total_seconds()
    if stream.state == State.STARTING:
        return since
    ended = (State.STOPPED, State.COMPLETED, State.BLOCKED)
    if stream.state in ended and seen is not None and seen.commit_age_s is not None:
        return since if seen.commit_age_s < since else 0.0  # its next batch may have landed before any pass observed it
    # The stored state is from before the start request: no pass has observed the stream since.
    return 0.0 if stream.state in (State.STOPPING, *ended) else float("inf")


def _failed_since(inputs: HealthInput) -> float:
    """Age of the newest failure in seconds; infinite without one."""
    return float("inf") if inputs.failure is None else inputs.failure.age_s


def _recovering(inputs: HealthInput) -> bool:
    """Whether it starts now because of a failure. A start by a person after a failure is a start, not a restart."""
    failure = inputs.failure
    if failure is None:
        return False
    return inputs.stream.state in TROUBLE - {State.BLOCKED} or failure.at >= inputs.stream.since


def _next(failure: Restart, now: datetime) -> str:
    if failure.next_attempt_at is None:
        return "no further automatic attempt"
    wait = (failure.next_attempt_at - now).total_seconds()
    return f"attempt {failure.attempt} in {span(wait)}" if wait > 0 else f"attempt {failure.attempt} is due"


def _wait(seen: Observation) -> str:
    records = seen.least_records
    if records is None or (records == 0 and seen.lag_records is None):
        return "records may wait (their number is not known)"
    least = "at least " if seen.lag_records is None else ""
    return f"{least}{count(records, 'record')} {'waits' if records == 1 else 'wait'}"


def _same_launch(inputs: HealthInput) -> bool:
    """Whether the stream's lease, expired or not, is its driver's: a driver releases it when the query has ended."""
    return inputs.driver is not None and inputs.lease is not None and inputs.lease.token == inputs.driver.token


def _stopped(inputs: HealthInput) -> str:
    seen = inputs.observation
    if seen is None and inputs.schedule is not None:
        return f"waits for its schedule, {inputs.schedule} (UTC); it has not landed anything yet"
    if seen is None or seen.committed_at is None:
        return "on request; it has not landed anything yet"
    batch = "its last batch" if seen.batch_id is None else f"batch {seen.batch_id:,}"
    return f"on request; {batch} landed {moment(seen.committed_at)}"


def _unreachable(inputs: HealthInput) -> str:
    who = inputs.unreachable or "its process could not be asked"
    return f"{who} and the driver sent no heartbeat {_silence(inputs)}"


def _silence(inputs: HealthInput) -> str:
    if inputs.driver is None or inputs.driver.age_s is None:
        return "since its launch"
    return f"for {span(inputs.driver.age_s)}"


def _first_line(text: str, most: int = 200) -> str:
    line = text.strip().splitlines()[0].rstrip(".") if text.strip() else "it failed"
    return line if len(line) <= most else line[: most - 1] + "…"
