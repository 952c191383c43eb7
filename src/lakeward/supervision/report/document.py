"""Stream document: the JSON fields of the contract, from which the on-call block is printed, too.

A value that is not known is None; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import NotRequired, TypedDict, cast

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import code_in
from lakeward.registry.drivers import Driver, Handle
from lakeward.registry.incidents import Incident
from lakeward.registry.observations import Observation, Progress, Watch, WatchedPartition
from lakeward.registry.streams import Stream
from lakeward.supervision import observe, page_links
from lakeward.supervision.decide.health import State
from lakeward.supervision.decide.since import since
from lakeward.supervision.report import advice, late, safety
from lakeward.supervision.report.lag import Lag, of_watch
from lakeward.supervision.report.material import Material, View
from lakeward.supervision.report.recent import RecentDocument
from lakeward.telemetry.mask import mask

_FAILING = frozenset({State.RESTARTING, State.BLOCKED, State.STALLED, State.UNKNOWN})
_LANDS = frozenset({State.HEALTHY, State.LAGGING})
FRESH_S = 60.0
"""Older figures of the driver are not used."""


class DriverEntry(TypedDict):
    """The driver in the JSON of `streams list`."""

    name: str
    backend: str | None
    handle: Handle | None
    host: str | None


class DriverDocument(DriverEntry):
    """The driver in the JSON of `streams status`. `beside`: the other streams it hosts."""

    pid: int | None
    heartbeat: datetime | None
    launched_at: datetime | None
    exit_code: int | None
    app_id: str | None
    log: str | None
    beside: list[str]


class _Identified(TypedDict):
    """What `streams list` and `streams status` both have."""

    id: str
    state: str
    why: str
    since: datetime
    sink: str | None
    generation: int
    pending_generation: int | None
    owner: str | None
    tags: list[str]


class StreamEntry(_Identified):
    """One stream in the JSON of `streams list`."""

    driver: DriverEntry


class LagFields(TypedDict):
    """The lag of a stream; `lag_trend`: none | falling | steady | growing.

    `lag_unknown`: why the lag is not known; then `partitions` has the sources that were measured, and `lag_at_least` is
    their lag. `held_records`: offsets behind open transactions, which cannot be read yet and are not part of the lag.
    `held_s`: the age of the oldest record there.
    """

    lag_records: int | None
    lag_s: float | None
    lag_unknown: str | None
    lag_at_least: int | None
    held_records: int | None
    held_s: float | None
    lag_trend: str | None
    lag_per_second: float | None
    lag_age_s: float | None
    catch_up_s: float | None
    arriving_per_second: float | None
    partitions: list[WatchedPartition]


class ProgressFields(TypedDict):
    """What Spark reported of the last batch."""

    event_time_lag_s: float | None
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    batch_duration_s: float | None
    durations_s: dict[str, float]
    watermark: str | None
    state_rows: int | None
    state_bytes: int | None
    state_disk_bytes: int | None


class Loss(TypedDict):
    """Whether data is lost (`safety.Lost`), the sentence that explains it, and what was dropped or skipped."""

    lost: str
    text: str
    but: str | None


FailureDocument = TypedDict(
    "FailureDocument",
    {
        "class": str | None,
        "error": str | None,
        "batch_id": int | None,
        "offsets": Mapping[str, object] | None,
        "at": datetime | None,
        "code": NotRequired[str | None],
    },
)
"""The newest failure: the reason of the block, else the last failure of its query or its driver."""


class OpenIncident(TypedDict):
    """The open incident that is about the stream."""

    id: int
    opened_at: datetime
    text: str


class Links(TypedDict):
    """Where more is to be seen."""

    spark_ui: str | None
    log: str | None
    runbook: str


class _Known(_Identified, LagFields, ProgressFields):
    driver: DriverDocument
    now: datetime
    desired: str
    query_id: str | None
    run_id: str | None
    data: Loss
    safe_to: safety.SafePosition | None
    next_batch: safety.NextBatch | None
    batch_id: int | None
    seq: int | None
    snapshot_id: int | None
    committed_at: datetime | None
    commit_age_s: float | None
    complete_through: datetime | str | None
    trigger_s: float | None
    freshness_limit_s: float | None
    late_dropped: int | None
    late_kept: int | None
    late_tables: list[str]
    late_text: str | None
    restarts_24h: int
    attempts: int
    next_attempt_at: datetime | None
    hold_until: datetime | None
    source_retention_s: float | None
    at_risk: bool | None
    at_risk_in_s: float | None
    failure: FailureDocument | None
    stable_generation: int | None
    differs: list[str]
    unsupervised: str | None
    incident: OpenIncident | None
    changed: list[RecentDocument]
    links: Links
    next: str | None
    next_text: str
    next_effect: str
    log_tail: list[str]


class StreamDocument(_Known):
    """The JSON of `streams status`. `unanswered` is present if a system did not answer."""

    unanswered: NotRequired[list[str]]


def entry(view: View, stream: Stream) -> StreamEntry:
    """One stream of `streams list`."""
    spec, seen = view.spec(stream.id), view.verdicts[stream.id]
    return {
        "id": stream.id,
        "state": seen.state.value,
        "why": mask(seen.why),
        "since": since(observe.health_input(view.facts, view.launches, stream), seen),
        "sink": spec.sink.label if spec else None,
        "driver": _driver(view, stream),
        "generation": stream.generation,
        "pending_generation": stream.pending_generation,
        "owner": spec.owner if spec else None,
        "tags": list(spec.tags) if spec else [],
    }


def entries_of(view: View) -> tuple[list[StreamEntry], list[str]]:
    """Every stream of `streams list`, and those of which something in the registry cannot be read."""
    rows, unreadable = [], []
    for stream in view.facts.streams:
        seen = attempt(f"stream {stream.id}", partial(entry, view, stream))
        if isinstance(seen, Failure):
            seen = _unread(stream, seen)
            unreadable.append(stream.id)
        elif view.verdicts[stream.id].odd:
            unreadable.append(stream.id)
        rows.append(seen)
    return rows, unreadable


def _unread(stream: Stream, failure: Failure) -> StreamEntry:
    return {
        "id": stream.id,
        "state": State.UNKNOWN.value,
        "why": mask(failure.text),
        "since": stream.since,
        "sink": None,
        "driver": {"name": stream.driver, "backend": None, "handle": None, "host": None},
        "generation": stream.generation,
        "pending_generation": stream.pending_generation,
        "owner": None,
        "tags": [],
    }


def document(m: Material) -> StreamDocument:
    """Everything known about one stream."""
    stream, facts, seen, view = m.stream, m.facts, m.verdict, m.view
    spec = view.spec(stream.id)
    observed = facts.observations.get(stream.id)
    watch: Watch = (observed.watch if observed else None) or {}
    progress: Progress = (observed.progress if observed else None) or {}
    position, lag = m.sources_read.position, m.sources_read.lag or of_watch(watch, facts.now)
    failure = facts.failure(stream)
    pair = [(stream.driver, stream.id), (stream.driver, None)]
    committed = (m.newest.committed_at if m.newest else None) or (observed.committed_at if observed else None)
    answer, step = safety.lost(m), advice.step(m)
    known: _Known = {
        **entry(view, stream),
        "now": facts.now,
        "desired": stream.desired,
        "query_id": observed.query_id if observed else None,
        "run_id": observed.run_id if observed else None,
        "driver": _driver_whole(view, stream, watch),
        "data": {"lost": answer.lost.value, "text": mask(answer.text), "but": answer.but or None},
        "safe_to": safety.safe_to(m),
        "next_batch": safety.replays(m),
        "batch_id": position.batch if position else observed.batch_id if observed else None,
        "seq": position.seq if position else None,
        "snapshot_id": position.snapshot if position else None,
        "committed_at": committed,
        "commit_age_s": (facts.now - committed).total_seconds() if committed else None,
        "complete_through": (position.complete_through if position else None)
        or (observed.complete_through if observed else None),
        **lag_fields(lag, watch, progress, seen.state, observed),
        **_progress_fields(progress, watch, facts.now),
        "trigger_s": spec.trigger.interval.seconds if spec and spec.trigger.interval else None,
        "freshness_limit_s": spec.limits.freshness.seconds if spec else None,
        "late_dropped": None if m.late is None else m.late.records,
        "late_kept": None if m.late_kept is None else m.late_kept.records,
        "late_tables": [] if m.late_kept is None else list(m.late_kept.tables),
        "late_text": late.words(m.late, m.late_kept) or None,
        "restarts_24h": sum(facts.failures_24h.get(key, 0) for key in pair),
        "attempts": failure.attempt if failure and seen.state in _FAILING else 0,
        "next_attempt_at": failure.next_attempt_at if failure and seen.state is State.RESTARTING else None,
        "hold_until": stream.hold_until if stream.hold_until and stream.hold_until > facts.now else None,
        "source_retention_s": lag.retention_s if lag else None,
        "at_risk": _at_risk(lag),
        "at_risk_in_s": safety.left_s(lag),
        "failure": _failure(m),
        "stable_generation": m.stable.generation if m.stable else None,
        "differs": list(m.differs),
        "unsupervised": view.unsupervised,
        "incident": _incident(m.incident),
        "changed": [{**item.document(), "text": mask(item.text)} for item in m.recent],
        "links": _links(view, stream),
        "next": step.command,
        "next_text": step.text,
        "next_effect": step.effect,
        "log_tail": [mask(str(line)) for line in (stream.blocked or {}).get("log") or m.tail],
    }
    result = cast("StreamDocument", known)
    if m.sources_read.trouble:
        result["unanswered"] = [mask(line) for line in m.sources_read.trouble]
    return result


def _at_risk(lag: Lag | None) -> bool | None:
    """One source at risk is enough; that none is can only be said of all."""
    risk = bool(safety.at_risk(lag))
    return risk if risk or (lag is not None and lag.waited_s is not None) else None


def _driver(view: View, stream: Stream) -> DriverEntry:
    driver = view.driver(stream)
    handle = driver.handle or None if driver else None
    return {
        "name": stream.driver,
        "backend": driver.backend if driver else None,
        "handle": handle,
        "host": driver.host if driver else None,
    }


def _driver_whole(view: View, stream: Stream, watch: Watch) -> DriverDocument:
    driver = view.driver(stream)
    return {
        **_driver(view, stream),
        "pid": (driver.handle or {}).get("pid") if driver else None,
        "heartbeat": driver.heartbeat if driver else None,
        "launched_at": driver.launched_at if driver else None,
        "exit_code": driver.exit_code if driver else None,
        "app_id": watch.get("app_id") if _of_this_launch(driver, watch) else None,
        "log": driver.log if driver else None,
        "beside": view.other_streams(stream),
    }


def _of_this_launch(driver: Driver | None, watch: Watch) -> bool:
    at = watch.get("at")
    return driver is not None and at is not None and datetime.fromisoformat(str(at)) >= driver.launched_at


def lag_fields(
    lag: Lag | None,
    watch: Watch,
    progress: Progress,
    state: State,
    observed: Observation | None,
) -> LagFields:
    """The lag of a stream, its trend, and when it will have caught up."""
    arriving = lag.arriving_per_second if lag and not lag.unmeasured else None
    landing = float(progress.get("processedRowsPerSecond") or 0.0) if state in _LANDS else 0.0
    records = lag.records if lag else None
    slope = watch.get("lag_per_second") if observed is not None and observed.age_s < FRESH_S else None
    if slope is None or state not in _LANDS:
        slope = arriving - landing if arriving is not None else None
    catch_up: float | None = None
    if records == 0:
        catch_up = 0.0
    elif records and slope is not None and slope < 0:
        catch_up = records / -slope
    return {
        "lag_records": records,
        "lag_s": lag.waited_s if lag else None,
        "lag_unknown": lag.unknown if lag else None,
        "lag_at_least": lag.at_least if lag else None,
        "lag_trend": _trend(records, slope, between=state is State.HEALTHY and _between_batches(lag, progress)),
        "lag_per_second": slope if records else None,
        "lag_age_s": lag.age_s if lag else None,
        "held_records": lag.held if lag else None,
        "held_s": lag.held_s if lag else None,
        "catch_up_s": catch_up,
        "arriving_per_second": arriving,
        "partitions": [part.document() for part in lag.partitions] if lag else [],
    }


BREATH_S = 10.0
"""Records that wait for less than this are the next batch, whatever the trigger."""


def _between_batches(lag: Lag | None, progress: Progress) -> bool:
    """Whether what waits is no more than what comes between two batches: its number rises and falls with each."""
    if lag is None or lag.oldest_s is None:
        return False
    batch_s = float((progress.get("durationMs") or {}).get("triggerExecution") or 0.0) / 1000
    return lag.oldest_s <= max(BREATH_S, 3 * batch_s)


def _trend(records: int | None, slope: float | None, *, between: bool = False) -> str | None:
    """`none` (nothing waits), `falling`, `steady` or `growing`; what grows between two batches is `steady`."""
    if records == 0:
        return "none"
    if records is None or slope is None:
        return None
    if between and slope > 0:
        return "steady"
    if abs(slope) < max(0.05, records / 86_400):  # it takes more than a day to double or to drain
        return "steady"
    return "falling" if slope < 0 else "growing"


def _progress_fields(progress: Progress, watch: Watch, now: datetime) -> ProgressFields:
    durations = {name: value / 1000 for name, value in (progress.get("durationMs") or {}).items()}
    durations |= {name: float(value) for name, value in (watch.get("phases") or {}).items()}
    times = progress.get("eventTime") or {}
    operators = progress.get("stateOperators") or []
    newest = times.get("max")
    store = watch.get("state")
    return {
        "event_time_lag_s": (now - datetime.fromisoformat(newest)).total_seconds() if newest else None,
        "input_rows_per_second": progress.get("inputRowsPerSecond"),
        "processed_rows_per_second": progress.get("processedRowsPerSecond"),
        "batch_duration_s": durations.get("triggerExecution"),
        "durations_s": durations,
        "watermark": times.get("watermark"),
        "state_rows": sum(int(item.get("numRowsTotal") or 0) for item in operators) if operators else None,
        "state_bytes": sum(int(item.get("memoryUsedBytes") or 0) for item in operators) if operators else None,
        "state_disk_bytes": store["disk_bytes"] if operators and store else None,
    }


def _incident(incident: Incident | None) -> OpenIncident | None:
    """What an incident is: the first line of its message, which says so; a stream may be healthy beside it."""
    if incident is None:
        return None
    first = (incident.text.strip().splitlines() or [""])[0]
    text = f"{mask(first)}; it closes by itself when that is over"
    return {"id": incident.id, "opened_at": incident.opened_at, "text": text}


def _failure(m: Material) -> FailureDocument | None:
    """The newest failure: the reason of the block, else the last failure of its query or its driver."""
    failure = _failed(m)
    if failure is None:
        return None
    text = mask(str(failure["error"] or ""))
    return {**failure, "error": text, "code": code_in(text)}


def _failed(m: Material) -> FailureDocument | None:
    stream = m.stream
    observed = m.facts.observations.get(stream.id)
    newest = m.facts.failure(stream)
    at = newest.at if newest is not None else None
    if stream.blocked is not None:
        blocked = stream.blocked
        return {
            "class": blocked.get("reason"),
            "error": ": ".join(filter(None, (blocked.get("what"), blocked.get("why")))),
            "batch_id": blocked.get("batch"),
            "offsets": blocked.get("offsets"),
            "at": datetime.fromisoformat(str(blocked["at"])) if "at" in blocked else at,
        }
    if observed is not None and observed.query_state == "failed" and observed.error:
        failed = observed.error
        return {
            "class": failed.get("class"),
            "error": failed.get("error"),
            "batch_id": failed.get("batch_id"),
            "offsets": failed.get("offsets"),
            "at": at,
        }
    if newest is None or m.verdict.state not in _FAILING:
        return None
    return {"class": newest.failure_class, "error": newest.error, "batch_id": None, "offsets": None, "at": at}


def _links(view: View, stream: Stream) -> Links:
    driver = view.driver(stream)
    return {
        "spark_ui": driver.spark_ui if driver is not None and not view.process_ended(stream) else None,
        "log": f"{driver.log}/driver.log" if driver is not None and driver.log else None,
        "runbook": page_links.RUNBOOK,
    }
