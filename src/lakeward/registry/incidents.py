"""Incidents: one problem each, however many streams it affects. People get one message for it, and one for its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry.schema import incidents

OPERATION = "operation"
"""The kind of a run of a stream's Dag that takes too long."""
FRESHNESS = "freshness"
"""The kind of a run of somebody's Dag that has not used the rows of a stream in time; its subject is `dag/run`."""


class Refusal(TypedDict):
    """A text that the receiver rejects, and until when (RFC 3339) it is not sent again."""

    text: str
    times: int
    until: str


class Sent(TypedDict, total=False):
    """What a receiver needs to find a message again: the webhook's `id`, or Slack's `ts` and `channel`."""

    id: object
    ts: str
    channel: str


class Message(Sent, total=False):
    """What a notifier needs to update its message: `text` is the sent text, `channel_name` the notifier's name."""

    text: str
    channel_name: str
    refused: Refusal


@dataclass(frozen=True)
class Incident:
    """One incident; open while `closed_at` is None.

    Attributes:
        kind: stream | dependency | thrash | reconcile | operation | freshness | state | late | quality | waiver.
        subject: the stream, the dependency, the table (of a waiver: table/check), or `streams`.
        fields: its details, e.g. the affected streams and the next command.
        message: None before the first was sent.
    """

    id: int
    kind: str
    subject: str
    opened_at: datetime
    text: str
    fields: Mapping[str, object]
    updated_at: datetime
    closed_at: datetime | None
    message: Message | None

    @property
    def refusals(self) -> int:
        """How many times the receiver rejected the newest text."""
        refused = (self.message or {}).get("refused")
        known = isinstance(refused, dict) and refused.get("text") == self.text and isinstance(refused.get("times"), int)
        return refused["times"] if refused and known else 0

    @property
    def streams(self) -> list[str]:
        """The affected streams, if its details name any."""
        named = self.fields.get("streams")
        return [str(stream) for stream in named] if isinstance(named, list) else []


def _read(row: Row[Any]) -> Incident:
    """One incident. Details or a message of another shape, from another version, count as none: they are only shown."""
    values = dict(row._mapping)
    return Incident(
        **values
        | {
            "fields": values["fields"] if isinstance(values["fields"], dict) else {},
            "message": values["message"] if isinstance(values["message"], dict) else None,
        }
    )


def open_ones(connection: Connection) -> dict[tuple[str, str], Incident]:
    """The open incidents by (kind, subject)."""
    rows = connection.execute(select(incidents).where(incidents.c.closed_at.is_(None)).order_by(incidents.c.id))
    return {(row.kind, row.subject): _read(row) for row in rows}


def opened(connection: Connection, kind: str, subject: str, text: str, **fields: object) -> int:
    """Open an incident, or update the text of the open one; returns its id."""
    made = insert(incidents).values(kind=kind, subject=subject, text=text, fields=fields)
    statement = made.on_conflict_do_update(
        index_elements=[incidents.c.kind, incidents.c.subject],
        index_where=incidents.c.closed_at.is_(None),
        set_={"text": text, "fields": fields, "updated_at": func.now()},
    )
    return int(connection.execute(statement.returning(incidents.c.id)).scalar_one())


def closed(connection: Connection, kind: str, subject: str, text: str) -> Incident | None:
    """Close the open incident, if there is one; returns it."""
    row = connection.execute(
        update(incidents)
        .where(incidents.c.kind == kind, incidents.c.subject == subject, incidents.c.closed_at.is_(None))
        .values(text=text, updated_at=func.now(), closed_at=func.now())
        .returning(*incidents.c)
    ).one_or_none()
    return None if row is None else _read(row)


def age_s(connection: Connection, incident: Incident) -> float:
    """For how long it has been open, by the registry's clock."""
    now: datetime = connection.execute(select(func.now())).scalar_one()
    return (now - incident.opened_at).total_seconds()


def remember_message(connection: Connection, incident: int, message: Message) -> None:
    """Store what the notifier needs to update its message later."""
    connection.execute(update(incidents).where(incidents.c.id == incident).values(message=message))


def remember_refusal(connection: Connection, incident: Incident, pause: timedelta) -> None:
    """Record that the receiver rejected the text of this incident; it is not due again before the pause is over."""
    now: datetime = connection.execute(select(func.now())).scalar_one()
    refused: Refusal = {"text": incident.text, "times": incident.refusals + 1, "until": (now + pause).isoformat()}
    remember_message(connection, incident.id, {**(incident.message or {}), "refused": refused})


def pending(connection: Connection) -> list[Incident]:
    """Incidents whose newest text was not sent yet, oldest first; without those whose receiver rejected that text
    within its pause."""
    sent = incidents.c.message["text"].astext
    now: datetime = connection.execute(select(func.now())).scalar_one()
    rows = connection.execute(select(incidents).where(sent.is_distinct_from(incidents.c.text)).order_by(incidents.c.id))
    return [incident for row in rows if not _waits(incident := _read(row), now)][:100]


def _waits(incident: Incident, now: datetime) -> bool:
    """Whether the receiver rejected this text within its pause; a record of it that cannot be read counts as none."""
    refused = (incident.message or {}).get("refused")
    if not isinstance(refused, dict) or refused.get("text") != incident.text:
        return False
    try:
        return datetime.fromisoformat(str(refused.get("until"))) > now
    except (ValueError, TypeError):
        return False


def forget_lines(connection: Connection, kind: str, subject: str, matches: Callable[[str], bool]) -> None:
    """Remove lines from the stored incidents of a subject. Sent messages stay with their receivers and are not sent
    again: the stored message is changed together with the text."""

    def remaining(text: str) -> str:
        return "\n".join(line for line in text.splitlines() if not matches(line))

    of = (incidents.c.kind == kind, incidents.c.subject == subject)
    for row in connection.execute(select(incidents.c.id, incidents.c.text, incidents.c.message).where(*of)).all():
        message = row.message and {
            name: remaining(value) if name == "text" else value
            for name, value in row.message.items()
            if name != "refused"
        }
        if (remaining(row.text), message) != (row.text, row.message):
            changed = {"text": remaining(row.text)} | ({"message": message} if message else {})
            connection.execute(update(incidents).where(incidents.c.id == row.id).values(**changed))
