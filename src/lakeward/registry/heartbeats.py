"""Heartbeats: when a periodic task last succeeded. A missing heartbeat is an alarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import ticks


@dataclass(frozen=True)
class Heartbeat:
    """The newest success of `name`; `age_s` in database time."""

    name: str
    at: datetime
    duration_s: float | None
    detail: Mapping[str, object]
    age_s: float


def record(connection: Connection, name: str, *, duration_s: float, **detail: object) -> None:
    """Record a success now."""
    values = {"duration_s": duration_s, "detail": detail}
    connection.execute(
        insert(ticks)
        .values(name=name, **values)
        .on_conflict_do_update(index_elements=[ticks.c.name], set_={"at": func.now(), **values})
    )


def newest(connection: Connection, name: str) -> Heartbeat | None:
    """The newest success, None without one."""
    age = func.extract("epoch", func.now() - ticks.c.at).label("age_s")
    row = connection.execute(select(ticks, age).where(ticks.c.name == name)).one_or_none()
    return None if row is None else Heartbeat(**{**row._mapping, "age_s": float(row.age_s)})
