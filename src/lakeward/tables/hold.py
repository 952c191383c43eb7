"""Holds maintenance of a table until a time, and lifts a hold: a person's, or one after a failed verification."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import Connection, func, select

from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import minute, word
from lakeward.registry import changes, events, maintenance
from lakeward.registry.maintenance import Table
from lakeward.spec.model.types import Duration


def hold(connection: Connection, table: str, until: datetime | Duration, *, author: str, comment: str) -> str:
    """Hold maintenance of a table until a time; returns a sentence.

    Raises:
        SpecError: the table does not exist, or the time is in the past.
    """
    row = registered(connection, table)
    now = connection.execute(select(func.now())).scalar_one()
    end = until if isinstance(until, datetime) else now + until.timedelta
    if end <= now:
        raise SpecError(
            f"Cannot hold {table} until {minute(end)}",
            why=f"The time is in the past: the registry's time is {minute(now)}.",
            next=f"lakeward tables hold {word(table)} --for 2h",
            code="LW-4009",
        )
    maintenance.hold(connection, table, end)
    text = f"no maintenance until {minute(end)}"
    _record_event(connection, row, "hold", text, author, comment)
    return text


def lift(connection: Connection, table: str, *, author: str, comment: str) -> str:
    """Lift the holds of a table; returns which they were.

    Raises:
        SpecError: the table does not exist, or expiry is held and the comment is missing.
        Refused: the table has no hold.
    """
    row = registered(connection, table)
    held = []
    if row.hold_until is not None:
        held.append(f"the hold until {minute(row.hold_until)}")
    if row.expiry_hold:
        held.append(f"the hold of expiry ({row.expiry_hold})")
    if not held:
        raise Refused(
            f"Table {table} has no hold to lift", next=f"lakeward tables hold {word(table)} --for 2h", code="LW-4010"
        )
    if row.expiry_hold and not comment.strip():
        raise SpecError(
            f"Cannot lift the hold of {table} without a comment",
            why=f"Expiry is held after a failed verification: {row.expiry_hold}",
            next=f'lakeward tables unhold {word(table)} --comment "the finding"   when the snapshots are not needed',
            code="LW-4011",
        )
    maintenance.hold(connection, table, None)
    maintenance.hold_expiry(connection, table, None)
    text = f"lifted {' and '.join(held)}"
    _record_event(connection, row, "unhold", text, author, comment)
    return text


def registered(connection: Connection, table: str) -> Table:
    """The registry's row of a table.

    Raises:
        SpecError: the table does not exist; names the nearest, or lists all.
    """
    known = maintenance.all_tables(connection)
    if table in known:
        return known[table]
    near = get_close_matches(table, known, n=1)
    raise SpecError(
        f"Table {table} does not exist, or no maintenance has looked at it yet",
        why=f"Did you mean {near[0]}?" if near else f"Known tables: {', '.join(known) or 'none yet'}.",
        next="lakeward tables health",
        code="LW-4008",
    )


def _record_event(connection: Connection, before: Table, change: str, text: str, author: str, comment: str) -> None:
    was = {
        "hold_until": None if before.hold_until is None else before.hold_until.isoformat(),
        "expiry_hold": before.expiry_hold,
    }
    changes.record(connection, "table", before.name, change, author=author, comment=comment, before=was, after=text)
    events.record(connection, "table", before.name, change, f"{text} (by {author})", comment=comment)
