"""A person holds a table's maintenance until a time, or lifts what holds it: her own hold, or a failed verification."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import Connection, func, select

from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import minute
from lakeward.registry import changes, events, maintenance
from lakeward.registry.maintenance import Table
from lakeward.spec.model.types import Duration


def hold(connection: Connection, table: str, until: datetime | Duration, *, author: str, comment: str) -> str:
    """No maintenance of a table before a time; says until when.

    Raises:
        SpecError: there is no such table, or the time is over.
    """
    row = registered(connection, table)
    now = connection.execute(select(func.now())).scalar_one()
    end = until if isinstance(until, datetime) else now + until.timedelta
    if end <= now:
        raise SpecError(f"{minute(end)} is over", why=f"the registry's time is {minute(now)}", code="LW-4009")
    maintenance.hold(connection, table, end)
    text = f"no maintenance until {minute(end)}"
    _tell(connection, row, "hold", text, author, comment)
    return text


def lift(connection: Connection, table: str, *, author: str, comment: str) -> str:
    """Lift whatever holds a table; says what that was.

    Raises:
        SpecError: there is no such table, or expiry is held and nobody says why it may go on.
        Refused: nothing holds it.
    """
    row = registered(connection, table)
    held = []
    if row.hold_until is not None:
        held.append(f"the hold until {minute(row.hold_until)}")
    if row.expiry_hold:
        held.append(f"the hold of expiry ({row.expiry_hold})")
    if not held:
        raise Refused(f"Nothing holds table {table}", next=f"lakeward tables hold {table} --for 2h", code="LW-4010")
    if row.expiry_hold and not comment.strip():
        raise SpecError(
            f"Expiry of {table} is held because a verification failed",
            why=row.expiry_hold,
            next=f'lakeward tables unhold {table} --comment "what was found"   once the snapshots are not needed',
            code="LW-4011",
        )
    maintenance.hold(connection, table, None)
    maintenance.hold_expiry(connection, table, None)
    text = f"lifted {' and '.join(held)}"
    _tell(connection, row, "unhold", text, author, comment)
    return text


def registered(connection: Connection, table: str) -> Table:
    """The registry's row of a table.

    Raises:
        SpecError: there is no such table; names the nearest, or all.
    """
    known = maintenance.all_tables(connection)
    if table in known:
        return known[table]
    near = get_close_matches(table, known, n=1)
    raise SpecError(
        f"There is no table {table!r}",
        why=f"did you mean {near[0]}?" if near else f"known tables: {', '.join(known) or 'none yet'}",
        next="lakeward tables health",
        code="LW-4008",
    )


def _tell(connection: Connection, before: Table, change: str, text: str, author: str, comment: str) -> None:
    was = {
        "hold_until": None if before.hold_until is None else before.hold_until.isoformat(),
        "expiry_hold": before.expiry_hold,
    }
    changes.record(connection, "table", before.name, change, author=author, comment=comment, before=was, after=text)
    events.record(connection, "table", before.name, change, f"{text} (by {author})", comment=comment)
