"""The on-call block: what is wrong, since when, why, whether data is lost, what was tried, what to do now.

Always the same lines in the same order. Line two answers the only question that matters at 3 a.m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from lakeward.backends.base import Job
from lakeward.control import look
from lakeward.control.look import Facts
from lakeward.registry import events, streams
from lakeward.registry.observations import Observation
from lakeward.registry.streams import Stream
from lakeward.streams.health import SETTLED, TROUBLE, State, Verdict, verdict
from lakeward.streams.words import count, span

KIND = "report"
"""The event a report leaves: what was told last decides what is told next."""

_LOSS = {
    "rolled-back": "DATA IS LOST FROM THE TABLE until a person acts",
    "replaced": "DATA IS LOST FROM THE TABLE until a person acts",
    "gap": "DATA IS AT RISK: records between the table and the checkpoint are missing",
    "diverged": "DATA IS AT RISK: table and checkpoint tell different stories",
}
_UNKEPT_SINKS = ("kafka", "console", "python", "memory")


@dataclass(frozen=True)
class Report:
    """The block about one stream. `found`: the trouble this report was asked for, which may be over by now."""

    stream: str
    verdict: Verdict
    lines: tuple[str, ...]
    found: str | None = None

    @property
    def trouble(self) -> bool:
        """Whether it tells of trouble: the stream is down, nobody can say, or it was down when the report was due."""
        return self.verdict.state in TROUBLE or self.found is not None


@dataclass(frozen=True)
class Due:
    """A report that has to be told.

    `run` names it, the same for the same state however often it is found due; `found` is the trouble in a sentence.
    """

    stream: str
    run: str
    found: str | None = None


def block(facts: Facts, jobs: Sequence[Job] | None, stream: Stream, found: str | None = None) -> Report:
    """The block about one stream, from what the registry and the backend say.

    Args:
        jobs: what the backend answered.
        found: the trouble the report is about, when it was found earlier: it is told although it may be over.
    """
    judged = verdict(look.sight(facts, jobs, stream))
    seen = facts.observations.get(stream.id)
    since = (facts.now - stream.since).total_seconds() if stream.state == judged.state.value else 0.0
    progress = (seen.progress if seen is not None else None) or {}
    now = f"{judged.state.value.upper()} since {span(since)}: {judged.why}"
    if judged.state in TROUBLE:
        found = None  # it is not over: what is true now is what matters
    lines = [
        now if found is None else f"{found}; by now it is {now}",
        f"Data: {_data(facts, stream, judged, seen)}",
        f"Landed: {_landed(seen)}",
        f"Waiting: {_waiting(seen)}",
        f"Rates: {_rates(progress)}",
        f"State: {_state(progress)}",
        f"Restarts: {_restarts(facts, stream)}",
        f"Failure: {_failure(facts, stream, seen)}",
        f"Identity: {_identity(facts, stream)}",
        f"Logs: {_logs(facts, stream)}",
        f"Next: {_next(stream, judged)}",
    ]
    return Report(stream.id, judged, tuple(lines), found)


def told(connection: Connection, report: Report) -> None:
    """Remember that this was told, so that it is told once."""
    events.record(
        connection,
        "stream",
        report.stream,
        KIND,
        report.lines[0],
        trouble=report.trouble,
        state=report.verdict.state.value,
    )


def due(connection: Connection) -> list[Due]:
    """The reports to tell now: one when trouble begins, one when it waits for a person, one when it ends."""
    last = events.newest_of_kind(connection, "stream", KIND)
    wanted = []
    for stream in streams.all_streams(connection):
        before = last.get(stream.id, {}).get("fields") or {}
        state = State(stream.state)
        begins = state in TROUBLE and not before.get("trouble")
        worsens = state is State.BLOCKED and before.get("state") != state.value
        ends = state in SETTLED and bool(before.get("trouble"))
        if begins or worsens or ends:
            run = f"report__{state.value}__{stream.since:%Y-%m-%dT%H-%M-%S}"
            moment = f"{stream.since:%H:%M:%S} UTC"
            trouble = f"At {moment} it was {state.value.upper()}: {stream.why}" if state in TROUBLE else None
            wanted.append(Due(stream.id, run, trouble))
    return wanted


def _data(facts: Facts, stream: Stream, judged: Verdict, seen: Observation | None) -> str:
    reason = str((stream.blocked or {}).get("reason", ""))
    if reason in _LOSS:
        return f"{_LOSS[reason]}. {judged.why}"
    spec = facts.generations[stream.id].spec if stream.id in facts.generations else {}
    sink = next((name for name in _UNKEPT_SINKS if name in (spec.get("sink") or {})), None)
    waits = "" if seen is None or not seen.lag_records else f"; {count(seen.lag_records, 'record')} wait at the source"
    if sink is not None:
        return f"nothing is lost{waits}. The {sink} sink is written at least once: the last batch may appear twice"
    if judged.state is State.UNKNOWN:
        return f"nothing is known to be lost: the table keeps what landed and from where to go on{waits}"
    return f"nothing is lost: the table says what landed, and the stream goes on from there{waits}"


def _landed(seen: Observation | None) -> str:
    if seen is None or seen.committed_at is None:
        return "nothing yet"
    parts = [f"{span(seen.commit_age_s)} ago ({seen.committed_at:%Y-%m-%d %H:%M:%S} UTC)"]
    if seen.batch_id is not None:
        parts.append(f"batch {seen.batch_id:,}")
    if seen.snapshot_id is not None:
        parts.append(f"snapshot {seen.snapshot_id}")
    if seen.complete_through is not None:
        parts.append(f"complete through {seen.complete_through:%Y-%m-%d %H:%M} UTC")
    return ", ".join(parts)


def _waiting(seen: Observation | None) -> str:
    if seen is None or (seen.lag_records is None and seen.lag_s is None):
        return "not known"
    if seen.lag_records == 0:
        return f"nothing ({span(seen.age_s)} ago)"
    behind = f", {span(seen.lag_s)} behind" if seen.lag_s is not None else ""
    return f"{count(seen.lag_records, 'record')}{behind} ({span(seen.age_s)} ago)"


def _rates(progress: dict[str, Any]) -> str:
    if not progress:
        return "no progress was reported yet"
    arriving, done = progress.get("inputRowsPerSecond"), progress.get("processedRowsPerSecond")
    took = (progress.get("durationMs") or {}).get("triggerExecution") or progress.get("batchDuration")
    parts = [f"{arriving:,.0f} records/s arrive" if isinstance(arriving, int | float) else "arrivals not known"]
    parts.append(f"{done:,.0f} records/s are processed" if isinstance(done, int | float) else "processing not known")
    if isinstance(took, int | float):
        parts.append(f"the last batch took {took / 1000:.1f} s")
    return ", ".join(parts)


def _state(progress: dict[str, Any]) -> str:
    operators = progress.get("stateOperators") or []
    if not operators:
        return "none kept"
    rows = sum(int(item.get("numRowsTotal") or 0) for item in operators)
    late = sum(int(item.get("numRowsDroppedByWatermark") or 0) for item in operators)
    mark = (progress.get("eventTime") or {}).get("watermark")
    return f"{count(rows, 'row')} kept, {count(late, 'late row')} dropped, watermark {mark or 'not known'}"


def _restarts(facts: Facts, stream: Stream) -> str:
    number = facts.failures_24h.get((stream.driver, stream.id), 0) + facts.failures_24h.get((stream.driver, None), 0)
    failure = facts.failure(stream)
    if failure is None or number == 0:
        return "none in 24 h"
    following = "no further attempt by itself"
    if failure.next_attempt_at is not None:
        wait = (failure.next_attempt_at - facts.now).total_seconds()
        driver = facts.drivers.get(stream.driver)
        if driver is not None and driver.launched_at > failure.at:
            following = f"attempt {failure.attempt} was launched {span(driver.launched_s)} ago"
        else:
            following = f"attempt {failure.attempt} {f'in {span(wait)}' if wait > 0 else f'is due since {span(-wait)}'}"
    return f"{number} in 24 h, {following}"


def _failure(facts: Facts, stream: Stream, seen: Observation | None) -> str:
    failure = facts.failure(stream)
    error = (seen.error if seen is not None else None) or {}
    if failure is None:
        return "none"
    text = failure.error.strip().splitlines()[0] if failure.error.strip() else "no text"
    parts = [f"{failure.failure_class}, {span(failure.age_s)} ago: {text}"]
    if error.get("batch_id") is not None:
        parts.append(f"batch {error['batch_id']}")
    if error.get("offsets"):
        parts.append(f"offsets {error['offsets']}")
    return "; ".join(parts)


def _identity(facts: Facts, stream: Stream) -> str:
    driver = facts.drivers.get(stream.driver)
    generation = f"generation {stream.generation}"
    if stream.pending_generation is not None:
        generation += f" ({stream.pending_generation} waits for upgrade)"
    if driver is None:
        return f"{generation}, driver {stream.driver} was never launched"
    pid = (driver.handle or {}).get("pid", "not known")
    beat = "no sign of life yet" if driver.age_s is None else f"last sign of life {span(driver.age_s)} ago"
    return (
        f"{generation}, driver {driver.name} ({driver.backend}, {driver.host or 'host not known'}, process {pid}), "
        f"launched {span(driver.launched_s)} ago, {beat}"
    )


def _logs(facts: Facts, stream: Stream) -> str:
    driver = facts.drivers.get(stream.driver)
    if driver is None or not driver.log:
        return f"lakeward streams logs {stream.id}"
    ui = f"; Spark UI {driver.spark_ui}" if driver.spark_ui else ""
    return f"{driver.log}/driver.log, or lakeward streams logs {stream.id}{ui}"


def _next(stream: Stream, judged: Verdict) -> str:
    if stream.blocked is not None:
        return str(stream.blocked.get("next") or f"lakeward streams status {stream.id}")
    words = {
        State.STALLED: f"lakeward streams logs {stream.id}; if it hangs: lakeward streams restart {stream.id}",
        State.RESTARTING: f"wait for the next attempt, or cut it short: lakeward streams start {stream.id}",
        State.UNKNOWN: "lakeward stack status; nothing is restarted until somebody can be asked",
        State.LAGGING: "more cores or a larger max_offsets_per_trigger, if it does not catch up by itself",
        State.STOPPED: f"lakeward streams start {stream.id}",
    }
    return words.get(judged.state, "nothing")
