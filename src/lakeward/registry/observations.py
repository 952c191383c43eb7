"""Observations: the newest report of each driver about each of its queries.

`watch` has what only the driver can observe all the time. The driver writes it as a whole, every few seconds; every key
may be missing or null if it is not known:

| key | value |
|---|---|
| `at` | when it was measured, RFC 3339 |
| `partitions` | `[{source, topic, partition, position, end, lag_records}]`; `position` null before the first batch |
| `oldest` | when the oldest waiting record was written, RFC 3339: its age stays right after the driver's death |
| `retention_s` | shortest retention of the source; null: unlimited |
| `arriving_per_second` | records that arrived in the last minute, per second |
| `lag_per_second` | slope of the lag over the last minutes, in records; negative: it catches up |
| `phases` | `{phase: seconds}` of the last batch, Spark's names and our own (`stage`, `publish`, ...) |
| `state` | `{rows, bytes, disk_bytes}` over all state stores |
| `app_id` | Spark's application id |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Numeric, cast, func, null, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry import version
from lakeward.registry.schema import observations


@dataclass(frozen=True)
class Observation:
    """The latest observation of a stream; `age_s` and `commit_age_s` are in database time.

    `state_rows`: rows in all its state stores, None without state.
    """

    stream: str
    at: datetime
    run_id: str | None
    query_id: str | None
    batch_id: int | None
    seq: int | None
    snapshot_id: int | None
    committed_at: datetime | None
    progress: dict[str, Any] | None
    lag_records: int | None
    lag_s: float | None
    complete_through: datetime | None
    query_state: str | None
    error: dict[str, Any] | None
    age_s: float
    commit_age_s: float | None
    watch: dict[str, Any] | None = None
    state_rows: int | None = None


def latest(connection: Connection, *, whole: bool = True) -> dict[str, Observation]:
    """The latest observation by stream; without `whole`, `progress` and `watch`, the larger part, are omitted."""
    bulk = {} if whole else {"progress": null().label("progress"), "watch": null().label("watch")}
    statement = select(
        *(bulk.get(column.name, column) for column in observations.c),
        func.extract("epoch", func.now() - observations.c.at).label("age_s"),
        func.extract("epoch", func.now() - observations.c.committed_at).label("commit_age_s"),
        cast(observations.c.watch["state"]["rows"].astext, Numeric).label("state_rows"),
    )
    result = {}
    for row in connection.execute(statement):
        values = dict(row._mapping)
        values["age_s"] = float(values["age_s"])
        values["commit_age_s"] = None if values["commit_age_s"] is None else float(values["commit_age_s"])
        values["state_rows"] = None if values["state_rows"] is None else int(values["state_rows"])
        result[row.stream] = Observation(**values)
    return result


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
