"""Observations: the newest report of each driver about each of its queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from sqlalchemy import Connection, func, null, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry import version
from lakeward.registry.schema import observations


class WatchedPartition(TypedDict):
    """One partition of a source; `position` is None before the first batch.

    `held_records`: offsets after `end` that cannot be read before an open transaction ends; missing if not asked.
    """

    source: str
    topic: str
    partition: int
    position: int | None
    end: int
    lag_records: int
    held_records: NotRequired[int]


class StateSize(TypedDict):
    """The size of all state stores of a query."""

    rows: int
    bytes: int
    disk_bytes: int


class Lateness(TypedDict, total=False):
    """Late rows of the last batches of a query, and its watermark (RFC 3339; None without one).

    `batches`: how many batches with rows; `dropped`, `kept`: their rows as Spark's state operators count them.
    """

    batches: int
    dropped: int
    kept: int
    watermark: str | None


class AtLeast(TypedDict):
    """The lag of those sources of a stream that could be measured; `seconds` None: not known."""

    records: int
    seconds: float | None


class Watch(TypedDict, total=False):
    """What only the driver can observe all the time. It writes all of it every few seconds; what it does not know is
    missing or None.

    Attributes:
        at: when it was measured, RFC 3339.
        oldest: when the oldest waiting record was written, RFC 3339: its age stays right after the driver's death.
        retention_s: shortest retention of the source; None: unlimited.
        arriving_per_second: records that arrived in the last minute, per second.
        lag_per_second: slope of the lag over the last minutes, in records; negative: it catches up.
        phases: phase -> seconds of the last batch, Spark's names and our own (`stage`, `publish`, ...).
        unmeasured: source -> why its lag is not known; then the lag of the stream is not known, and `partitions` and
            `oldest` are those of the others.
        at_least: the lag of the others; None if all were measured, or none.
        app_id: Spark's application id.
        totals: consumed, landed, quarantined, filtered, skipped: since the stream's first position, as the sink has
            them.
    """

    at: str
    partitions: list[WatchedPartition]
    oldest: str | None
    retention_s: float | None
    arriving_per_second: float | None
    lag_per_second: float | None
    phases: dict[str, float]
    state: StateSize
    late: Lateness
    unmeasured: dict[str, str]
    at_least: AtLeast | None
    app_id: str
    totals: dict[str, int]


class StateOperator(TypedDict, total=False):
    """What Lakeward reads of a state operator in Spark's progress report."""

    numRowsTotal: int
    numRowsUpdated: int
    memoryUsedBytes: int
    numRowsDroppedByWatermark: int
    customMetrics: dict[str, int]


class Progress(TypedDict, total=False):
    """What Lakeward reads of Spark's StreamingQueryProgress, which is stored whole."""

    id: str
    runId: str
    batchId: int
    durationMs: dict[str, int]
    eventTime: dict[str, str]
    stateOperators: list[StateOperator]
    inputRowsPerSecond: float
    processedRowsPerSecond: float


QueryError = TypedDict(
    "QueryError",
    {
        "class": str,
        "cause": str | None,
        "error": str,
        "batch_id": int | None,
        "offsets": Mapping[str, object] | None,
    },
    total=False,
)
"""The last failure of a query."""


@dataclass(frozen=True)
class Observation:
    """The latest observation of a stream; `age_s` and `commit_age_s` are in database time.

    `lag_records`, `lag_s`: None if a source cannot be measured. `at_least`: then the lag of the others. `state_rows`:
    rows in all its state stores, None without state. `at_least`, `late`: also without `whole`.
    """

    stream: str
    at: datetime
    run_id: str | None
    query_id: str | None
    batch_id: int | None
    seq: int | None
    snapshot_id: int | None
    committed_at: datetime | None
    progress: Progress | None
    lag_records: int | None
    lag_s: float | None
    complete_through: datetime | None
    query_state: str | None
    error: QueryError | None
    age_s: float
    commit_age_s: float | None
    watch: Watch | None = None
    state_rows: int | None = None
    late: Lateness | None = None
    at_least: AtLeast | None = None

    @property
    def least_records(self) -> int | None:
        """How many records wait, or wait at least; None if nothing is known of them."""
        if self.lag_records is not None or self.at_least is None:
            return self.lag_records
        return self.at_least["records"]

    @property
    def least_s(self) -> float | None:
        """How far behind it is, or is at least, in seconds."""
        if self.lag_records is not None or self.at_least is None:
            return self.lag_s
        return self.at_least["seconds"]


def latest(connection: Connection, *, whole: bool = True) -> dict[str, Observation]:
    """The latest observation by stream; without `whole`, `progress` and `watch`, the larger part, are omitted."""
    bulk = {} if whole else {"progress": null().label("progress"), "watch": null().label("watch")}
    statement = select(
        *(bulk.get(column.name, column) for column in observations.c),
        func.extract("epoch", func.now() - observations.c.at).label("age_s"),
        func.extract("epoch", func.now() - observations.c.committed_at).label("commit_age_s"),
        observations.c.watch["state"]["rows"].astext.label("state_rows"),
        observations.c.watch["late"].label("late"),
        observations.c.watch["at_least"].label("at_least"),
    )
    result = {}
    for row in connection.execute(statement):
        values = dict(row._mapping)
        values["age_s"] = float(values["age_s"])
        values["commit_age_s"] = None if values["commit_age_s"] is None else float(values["commit_age_s"])
        values["state_rows"] = _number(values["state_rows"])
        values["at_least"] = _at_least(values["at_least"])
        result[row.stream] = Observation(**values)
    return result


def _at_least(found: Any) -> AtLeast | None:
    """A lower bound as a driver of this version wrote it; None for another form."""
    if not isinstance(found, dict) or not isinstance(found.get("records"), int):
        return None
    seconds = found.get("seconds")
    return {"records": found["records"], "seconds": seconds if isinstance(seconds, int | float) else None}


def _number(text: str | None) -> int | None:
    """A count as an older or newer driver wrote it; None if it is none."""
    try:
        return None if text is None else int(float(text))
    except (ValueError, OverflowError):
        return None


def columns(connection: Connection) -> frozenset[str]:
    """The columns this registry has: a driver may be one version newer and omits the others."""
    return version.columns(connection, observations.name)


def record(connection: Connection, stream: str, **values: Any) -> None:
    """Write the current values; columns that are not named keep their value."""
    connection.execute(
        insert(observations)
        .values(stream=stream, **values)
        .on_conflict_do_update(index_elements=[observations.c.stream], set_={"at": func.now(), **values})
    )
