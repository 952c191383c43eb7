"""What `streams list` and `streams status` say: the registry, the table's position and the source, put together.

Every figure that cannot be known is None; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeward.backends.base import Job
from lakeward.cli.stream_lag import Lag, of_kafka
from lakeward.connectors.iceberg.position import NO_DATA, Position, key, parse
from lakeward.control import look
from lakeward.control.look import Facts
from lakeward.errors import LakewardError
from lakeward.registry.drivers import Driver
from lakeward.registry.generations import Generation
from lakeward.registry.streams import Stream
from lakeward.runtime import CATALOG, Runtime
from lakeward.spec.stream import StreamSpec
from lakeward.streams.health import State, Verdict

AT_RISK_SHARE = 0.5
"""Data is at risk when the oldest waiting record has used up this share of the source's retention."""


@dataclass(frozen=True)
class View:
    """All streams at one moment: what the registry says, what the backend says, and the word for each."""

    facts: Facts
    found: Sequence[Job] | None
    verdicts: Mapping[str, Verdict]

    def spec(self, stream: str) -> StreamSpec | None:
        """The spec of the generation a stream runs."""
        generation: Generation | None = self.facts.generations.get(stream)
        return None if generation is None else StreamSpec.model_validate(generation.spec)

    def driver(self, stream: Stream) -> Driver | None:
        """The newest launch of the driver that hosts it."""
        return self.facts.drivers.get(stream.driver)


def entry(view: View, stream: Stream) -> dict[str, Any]:
    """One stream of `streams list`."""
    spec, seen = view.spec(stream.id), view.verdicts[stream.id]
    return {
        "id": stream.id,
        "state": seen.state.value,
        "why": seen.why,
        "since": _since(stream, seen, view.facts),
        "sink": spec.sink.label if spec else None,
        "driver": _driver(view, stream),
        "generation": stream.generation,
        "pending_generation": stream.pending_generation,
        "owner": spec.owner if spec else None,
        "tags": list(spec.tags) if spec else [],
    }


def _driver(view: View, stream: Stream) -> dict[str, Any]:
    driver = view.driver(stream)
    handle = dict(driver.handle) if driver and driver.handle else None
    return {
        "name": stream.driver,
        "backend": driver.backend if driver else None,
        "handle": handle,
        "host": driver.host if driver else None,
    }


def _since(stream: Stream, seen: Verdict, facts: Facts) -> datetime:
    """Since when the word holds. A word nobody has recorded yet is seen for the first time now."""
    return stream.since if stream.state == seen.state.value else facts.now


def table_position(runtime: Runtime, spec: StreamSpec) -> Position | None:
    """What the sink's table says is landed; None where the sink keeps no position or the table does not exist yet.

    Raises:
        Blocked: the property is there and is not a position.
    """
    if spec.sink.iceberg is None:
        return None
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    table = str(spec.sink.iceberg.table)
    try:
        found = load_catalog(CATALOG, **pyiceberg_properties(runtime.lake, runtime.pgpass)).load_table(table)
    except NoSuchTableError:
        return None
    text = found.properties.get(key(spec.id))
    return None if text is None else parse(text, spec.id, table)


def measure(runtime: Runtime, spec: StreamSpec, ends: Mapping[str, str]) -> Lag | None:
    """The lag over all sources by `ends` (source -> position landed); None where no source can be asked yet."""
    found = [
        of_kafka(str(name), source.kafka, ends.get(str(name), NO_DATA), runtime.kafka)
        for name, source in spec.sources.items()
        if source.kafka is not None
    ]
    if not found:
        return None
    ages = [item.oldest_s for item in found]
    rates = [item.arriving_per_second for item in found]
    return Lag(
        tuple(part for item in found for part in item.partitions),
        None if None in ages else max(age for age in ages if age is not None),
        None if None in rates else sum(rate for rate in rates if rate is not None),
        min((item.retention_s for item in found if item.retention_s is not None), default=None),
    )


@dataclass(frozen=True)
class Sources:
    """What was asked outside of the registry for one stream; `trouble` says what did not answer."""

    position: Position | None = None
    lag: Lag | None = None
    trouble: tuple[str, ...] = ()


def ask_sources(runtime: Runtime, spec: StreamSpec, recorded_ends: Mapping[str, str]) -> Sources:
    """Ask the table and the broker. Whatever does not answer is named and left out: status works in an outage.

    Args:
        recorded_ends: source -> end of the newest recorded batch, for sinks that keep no position.
    """
    trouble: list[str] = []
    position: Position | None = None
    lag: Lag | None = None
    try:
        position = table_position(runtime, spec)
    except LakewardError as error:
        trouble.append(f"{error.what}: {error.why}")
    except Exception as error:  # noqa: BLE001  # the boundary to PyIceberg: an unreachable catalog must not hide the rest
        trouble.append(f"The catalog does not answer: {str(error).strip().splitlines()[0]}")
    try:
        lag = measure(runtime, spec, position.end if position else recorded_ends)
    except LakewardError as error:
        trouble.append(f"{error.what}: {error.why}")
    return Sources(position, lag, tuple(trouble))


def status(
    view: View, stream: Stream, asked: Sources, newest: Mapping[str, Any] | None, late: int | None
) -> dict[str, Any]:
    """Everything known of one stream, with the fields of the contract.

    Args:
        newest: the newest recorded batch (columns of the registry's `batches`).
        late: rows dropped because they came after the watermark, over the recorded batches.
    """
    facts, seen, spec = view.facts, view.verdicts[stream.id], view.spec(stream.id)
    observed = facts.observations.get(stream.id)
    position, lag = asked.position, asked.lag
    progress: dict[str, Any] = (observed.progress if observed else None) or {}
    failure = facts.failure(stream)
    pair = [(stream.driver, stream.id), (stream.driver, None)]
    result = entry(view, stream) | {
        "desired": stream.desired,
        "query_id": observed.query_id if observed else None,
        "run_id": observed.run_id if observed else None,
        "driver": _driver_whole(view, stream),
        "batch_id": position.batch if position else observed.batch_id if observed else None,
        "seq": position.seq if position else None,
        "snapshot_id": position.snapshot if position else None,
        "committed_at": (newest or {}).get("committed_at") or (observed.committed_at if observed else None),
        "complete_through": (position.complete_through if position else None)
        or (observed.complete_through if observed else None),
        **_lag_fields(lag, progress),
        **_progress_fields(progress, facts.now),
        "trigger_s": spec.trigger.interval.seconds if spec and spec.trigger.interval else None,
        "late_dropped": late,
        "restarts_24h": sum(facts.failures_24h.get(each, 0) for each in pair),
        "attempts": failure.attempt if failure and seen.state in _FAILING else 0,
        "next_attempt_at": failure.next_attempt_at if failure and seen.state is State.RESTARTING else None,
        "source_retention_s": lag.retention_s if lag else None,
        "at_risk": _at_risk(lag),
        "failure": _failure(view, stream),
        "next": _next(stream, seen),
    }
    if asked.trouble:
        result["unanswered"] = list(asked.trouble)
    return result


_FAILING = frozenset({State.RESTARTING, State.BLOCKED, State.STALLED, State.UNKNOWN})


def _driver_whole(view: View, stream: Stream) -> dict[str, Any]:
    driver = view.driver(stream)
    return _driver(view, stream) | {
        "pid": (driver.handle or {}).get("pid") if driver else None,
        "heartbeat": driver.heartbeat if driver else None,
        "log": driver.log if driver else None,
    }


def _lag_fields(lag: Lag | None, progress: Mapping[str, Any]) -> dict[str, Any]:
    arriving = lag.arriving_per_second if lag else None
    landing = progress.get("processedRowsPerSecond") or 0.0
    records = lag.records if lag else None
    catch_up: float | None = None
    if records == 0:
        catch_up = 0.0
    elif records and arriving is not None and landing > arriving:
        catch_up = records / (landing - arriving)
    return {
        "lag_records": records,
        "lag_s": lag.oldest_s if lag else None,
        "lag_trend": _trend(records, arriving, landing),
        "catch_up_s": catch_up,
        "arriving_per_second": arriving,
        "partitions": [part.document() for part in lag.partitions] if lag else [],
    }


def _trend(records: int | None, arriving: float | None, landing: float) -> str | None:
    """`none` (nothing waits), `falling` (it lands faster than records arrive) or `growing`."""
    if records is None or arriving is None:
        return None
    if records == 0:
        return "none"
    return "falling" if landing > arriving else "growing"


def _progress_fields(progress: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    durations = {name: value / 1000 for name, value in (progress.get("durationMs") or {}).items()}
    times = progress.get("eventTime") or {}
    operators = progress.get("stateOperators") or []
    newest = times.get("max")
    return {
        "event_time_lag_s": (now - datetime.fromisoformat(newest)).total_seconds() if newest else None,
        "input_rows_per_second": progress.get("inputRowsPerSecond"),
        "processed_rows_per_second": progress.get("processedRowsPerSecond"),
        "batch_duration_s": durations.get("triggerExecution"),
        "durations_s": durations,
        "watermark": times.get("watermark"),
        "state_rows": sum(int(each.get("numRowsTotal") or 0) for each in operators) if operators else None,
        "state_bytes": sum(int(each.get("memoryUsedBytes") or 0) for each in operators) if operators else None,
    }


def _at_risk(lag: Lag | None) -> bool | None:
    if lag is None or lag.oldest_s is None:
        return None
    return lag.retention_s is not None and lag.oldest_s > AT_RISK_SHARE * lag.retention_s


def _failure(view: View, stream: Stream) -> dict[str, Any] | None:
    """The newest failure: what blocks the stream, else what its query or its driver last failed of."""
    if stream.blocked is not None:
        blocked = stream.blocked
        return {
            "class": blocked.get("reason"),
            "error": " ".join(str(blocked[part]) for part in ("what", "why") if blocked.get(part)),
            "batch_id": blocked.get("batch"),
            "offsets": blocked.get("offsets"),
        }
    observed = view.facts.observations.get(stream.id)
    if observed is not None and observed.query_state == "failed" and observed.error:
        return {name: observed.error.get(name) for name in ("class", "error", "batch_id", "offsets")}
    failed = view.facts.failure(stream)
    if failed is None or view.verdicts[stream.id].state not in _FAILING:
        return None
    return {"class": failed.failure_class, "error": failed.error, "batch_id": None, "offsets": None}


def _next(stream: Stream, seen: Verdict) -> str | None:
    """What to do now; None when nothing is to be done."""
    if stream.blocked is not None and stream.blocked.get("next"):
        return str(stream.blocked["next"])
    if seen.state in (State.STALLED, State.UNKNOWN, State.RESTARTING, State.BLOCKED):
        return f"lakeward streams logs {stream.id}"
    if seen.state is State.STOPPED:
        return f"lakeward streams start {stream.id}"
    return None


def look_at(facts: Facts, found: Sequence[Job] | None) -> View:
    """The view of one moment."""
    return View(facts, found, look.verdicts(facts, found))
