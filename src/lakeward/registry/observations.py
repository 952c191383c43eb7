"""Observations: the newest thing each driver said of each of its queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import observations


@dataclass(frozen=True)
class Observation:
    """The latest observation of a stream; `age_s` and `commit_age_s` are in database time."""

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


def latest(connection: Connection) -> dict[str, Observation]:
    """The latest observation by stream."""
    statement = select(
        observations,
        func.extract("epoch", func.now() - observations.c.at).label("age_s"),
        func.extract("epoch", func.now() - observations.c.committed_at).label("commit_age_s"),
    )
    found = {}
    for row in connection.execute(statement):
        values = dict(row._mapping)
        values["age_s"] = float(values["age_s"])
        values["commit_age_s"] = None if values["commit_age_s"] is None else float(values["commit_age_s"])
        found[row.stream] = Observation(**values)
    return found


def record(connection: Connection, stream: str, **values: Any) -> None:
    """Write what is known now; columns not named keep their value."""
    connection.execute(
        insert(observations)
        .values(stream=stream, **values)
        .on_conflict_do_update(index_elements=[observations.c.stream], set_={"at": func.now(), **values})
    )
