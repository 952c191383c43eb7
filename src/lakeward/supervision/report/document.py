"""Stream document: the JSON fields of the contract, from which the on-call block is printed, too.

A value that is not known is None; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakeward.platform.errors import code_in
from lakeward.registry.drivers import Driver
from lakeward.registry.observations import Observation
from lakeward.registry.streams import Stream
from lakeward.supervision.decide.health import State, Verdict
from lakeward.supervision.observe import Facts
from lakeward.supervision.report import advice, safety
from lakeward.supervision.report.lag import Lag, of_watch
from lakeward.supervision.report.material import Material, View
from lakeward.telemetry.mask import mask

_FAILING = frozenset({State.RESTARTING, State.BLOCKED, State.STALLED, State.UNKNOWN})
_LANDS = frozenset({State.HEALTHY, State.LAGGING})
FRESH_S = 60.0
"""Older figures of the driver are not used."""


def entry(view: View, stream: Stream) -> dict[str, Any]:
    """One stream of `streams list`."""
    spec, seen = view.spec(stream.id), view.verdicts[stream.id]
    return {
        "id": stream.id,
        "state": seen.state.value,
        "why": mask(seen.why),
        "since": _since(stream, seen, view.facts),
        "sink": spec.sink.label if spec else None,
        "driver": _driver(view, stream),
        "generation": stream.generation,
        "pending_generation": stream.pending_generation,
        "owner": spec.owner if spec else None,
        "tags": list(spec.tags) if spec else [],
    }


def document(m: Material) -> dict[str, Any]:
    """Everything known about one stream."""
    stream, facts, seen, view = m.stream, m.facts, m.verdict, m.view
    spec = view.spec(stream.id)
    observed = facts.observations.get(stream.id)
    watch: Mapping[str, Any] = (observed.watch if observed else None) or {}
    progress: dict[str, Any] = (observed.progress if observed else None) or {}
    position, lag = m.asked.position, m.asked.lag or of_watch(watch, facts.now)
    failure = facts.failure(stream)
    pair = [(stream.driver, stream.id), (stream.driver, None)]
    committed = (m.newest or {}).get("committed_at") or (observed.committed_at if observed else None)
    answer, step = safety.lost(m), advice.step(m)
    result = entry(view, stream) | {
        "now": facts.now,
        "desired": stream.desired,
        "query_id": observed.query_id if observed else None,
        "run_id": observed.run_id if observed else None,
        "driver": _driver_whole(view, stream, watch),
        "data": {"lost": answer.lost.value, "text": mask(answer.text)},
        "safe_to": safety.safe_to(m),
        "next_batch": safety.replays(m),
        "batch_id": position.batch if position else observed.batch_id if observed else None,
        "seq": position.seq if position else None,
        "snapshot_id": position.snapshot if position else None,
        "committed_at": committed,
        "commit_age_s": (facts.now - committed).total_seconds() if committed else None,
        "complete_through": (position.complete_through if position else None)
        or (observed.complete_through if observed else None),
        **_lag_fields(lag, watch, progress, seen.state, observed),
        **_progress_fields(progress, watch, facts.now),
        "trigger_s": spec.trigger.interval.seconds if spec and spec.trigger.interval else None,
        "late_dropped": m.late,
        "restarts_24h": sum(facts.failures_24h.get(key, 0) for key in pair),
        "attempts": failure.attempt if failure and seen.state in _FAILING else 0,
        "next_attempt_at": failure.next_attempt_at if failure and seen.state is State.RESTARTING else None,
        "hold_until": stream.hold_until if stream.hold_until and stream.hold_until > facts.now else None,
        "source_retention_s": lag.retention_s if lag else None,
        "at_risk": None if lag is None or lag.oldest_s is None else bool(safety.at_risk(lag)),
        "at_risk_in_s": safety.left_s(lag),
        "failure": _failure(m),
        "stable_generation": m.stable.generation if m.stable else None,
        "differs": list(m.differs),
        "unsupervised": view.unsupervised,
        "incident": {"id": m.incident.id, "opened_at": m.incident.opened_at} if m.incident else None,
        "changed": [item.document() | {"text": mask(item.text)} for item in m.recent],
        "links": _links(view, stream),
        "next": step.command,
        "next_text": step.text,
        "next_effect": step.effect,
        "log_tail": [mask(str(line)) for line in (stream.blocked or {}).get("log") or m.tail],
    }
    if m.asked.trouble:
        result["unanswered"] = [mask(line) for line in m.asked.trouble]
    return result


def _since(stream: Stream, seen: Verdict, facts: Facts) -> datetime:
    """Since when the stream is in this state: as recorded, or now if it is not recorded yet; a block has its own."""
    blocked = (stream.blocked or {}).get("at") if seen.state is State.BLOCKED else None
    if blocked is not None:
        return datetime.fromisoformat(str(blocked))
    return stream.since if stream.state == seen.state.value else facts.now


def _driver(view: View, stream: Stream) -> dict[str, Any]:
    driver = view.driver(stream)
    handle = dict(driver.handle) if driver and driver.handle else None
    return {
        "name": stream.driver,
        "backend": driver.backend if driver else None,
        "handle": handle,
        "host": driver.host if driver else None,
    }


def _driver_whole(view: View, stream: Stream, watch: Mapping[str, Any]) -> dict[str, Any]:
    driver = view.driver(stream)
    return _driver(view, stream) | {
        "pid": (driver.handle or {}).get("pid") if driver else None,
        "heartbeat": driver.heartbeat if driver else None,
        "launched_at": driver.launched_at if driver else None,
        "exit_code": driver.exit_code if driver else None,
        "app_id": watch.get("app_id") if _of_this_launch(driver, watch) else None,
        "log": driver.log if driver else None,
        "beside": view.other_streams(stream),
    }


def _of_this_launch(driver: Driver | None, watch: Mapping[str, Any]) -> bool:
    at = watch.get("at")
    return driver is not None and at is not None and datetime.fromisoformat(str(at)) >= driver.launched_at


def _lag_fields(
    lag: Lag | None,
    watch: Mapping[str, Any],
    progress: Mapping[str, Any],
    state: State,
    observed: Observation | None,
) -> dict[str, Any]:
    arriving = lag.arriving_per_second if lag else None
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
        "lag_s": lag.oldest_s if lag else None,
        "lag_trend": _trend(records, slope),
        "lag_per_second": slope if records else None,
        "lag_age_s": lag.age_s if lag else None,
        "catch_up_s": catch_up,
        "arriving_per_second": arriving,
        "partitions": [part.document() for part in lag.partitions] if lag else [],
    }


def _trend(records: int | None, slope: float | None) -> str | None:
    """`none` (nothing waits), `falling`, `steady` or `growing`."""
    if records == 0:
        return "none"
    if records is None or slope is None:
        return None
    if abs(slope) < max(0.05, records / 86_400):  # it takes more than a day to double or to drain
        return "steady"
    return "falling" if slope < 0 else "growing"


def _progress_fields(progress: Mapping[str, Any], watch: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    durations = {name: value / 1000 for name, value in (progress.get("durationMs") or {}).items()}
    durations |= {name: float(value) for name, value in (watch.get("phases") or {}).items()}
    times = progress.get("eventTime") or {}
    operators = progress.get("stateOperators") or []
    newest = times.get("max")
    store = watch.get("state") or {}
    return {
        "event_time_lag_s": (now - datetime.fromisoformat(newest)).total_seconds() if newest else None,
        "input_rows_per_second": progress.get("inputRowsPerSecond"),
        "processed_rows_per_second": progress.get("processedRowsPerSecond"),
        "batch_duration_s": durations.get("triggerExecution"),
        "durations_s": durations,
        "watermark": times.get("watermark"),
        "state_rows": sum(int(item.get("numRowsTotal") or 0) for item in operators) if operators else None,
        "state_bytes": sum(int(item.get("memoryUsedBytes") or 0) for item in operators) if operators else None,
        "state_disk_bytes": store.get("disk_bytes") if operators else None,
    }


def _failure(m: Material) -> dict[str, Any] | None:
    """The newest failure: the reason of the block, else the last failure of its query or its driver."""
    failure = _failed(m)
    if failure is None:
        return None
    text = mask(str(failure["error"] or ""))
    return failure | {"error": text, "code": code_in(text)}


def _failed(m: Material) -> dict[str, Any] | None:
    stream = m.stream
    observed = m.facts.observations.get(stream.id)
    newest = m.facts.failure(stream)
    at = newest.at if newest is not None else None
    if stream.blocked is not None:
        blocked = stream.blocked
        return {
            "class": blocked.get("reason"),
            "error": ": ".join(str(blocked[part]) for part in ("what", "why") if blocked.get(part)),
            "batch_id": blocked.get("batch"),
            "offsets": blocked.get("offsets"),
            "at": datetime.fromisoformat(str(blocked["at"])) if "at" in blocked else at,
        }
    if observed is not None and observed.query_state == "failed" and observed.error:
        return {name: observed.error.get(name) for name in ("class", "error", "batch_id", "offsets")} | {"at": at}
    if newest is None or m.verdict.state not in _FAILING:
        return None
    return {"class": newest.failure_class, "error": newest.error, "batch_id": None, "offsets": None, "at": at}


def _links(view: View, stream: Stream) -> dict[str, Any]:
    driver = view.driver(stream)
    return {
        "spark_ui": driver.spark_ui if driver is not None and not view.process_gone(stream) else None,
        "log": f"{driver.log}/driver.log" if driver is not None and driver.log else None,
        "runbook": advice.RUNBOOK,
    }
