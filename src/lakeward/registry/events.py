"""Events: the timeline. One sentence for each event, with its values as fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select
from sqlalchemy.dialects.postgresql import distinct_on

from lakeward.registry.schema import events


@dataclass(frozen=True)
class Event:
    """One line of a timeline: a sentence, and its values as fields."""

    id: int
    at: datetime
    scope: str
    name: str
    kind: str
    text: str
    fields: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        """The form of `streams events -o json`."""
        return {name: value for name, value in vars(self).items() if name != "id"}


def record(connection: Connection, scope: str, name: str, kind: str, text: str, **fields: object) -> None:
    """Add one line to the timeline of (scope, name)."""
    connection.execute(insert(events).values(scope=scope, name=name, kind=kind, text=text, fields=fields))


def record_all(
    connection: Connection, scope: str, kind: str, lines: Sequence[tuple[str, str, Mapping[str, object]]]
) -> None:
    """Add one line, (name, text, fields), to each of many timelines."""
    if lines:
        rows = [
            {"scope": scope, "name": name, "kind": kind, "text": text, "fields": dict(fields)}
            for name, text, fields in lines
        ]
        connection.execute(insert(events), rows)


def newest(connection: Connection, scope: str, name: str, limit: int = 50) -> list[Event]:
    """The newest events, the oldest of them first."""
    rows = connection.execute(
        select(events).where(events.c.scope == scope, events.c.name == name).order_by(events.c.id.desc()).limit(limit)
    )
    return [Event(**row._mapping) for row in rows][::-1]


def newest_of_kind(connection: Connection, scope: str, kind: str, name: str | None = None) -> dict[str, Event]:
    """The newest event of one kind for every name of a scope, or for one."""
    statement = (
        select(events)
        .ext(distinct_on(events.c.name))
        .where(events.c.scope == scope, events.c.kind == kind)
        .order_by(events.c.name, events.c.id.desc())
    )
    rows = connection.execute(statement if name is None else statement.where(events.c.name == name))
    return {row.name: Event(**row._mapping) for row in rows}
