"""Records waivers: begin, end before the time, and the notice when the time is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select

from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import minute, word
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.registry import changes, events, incidents, verifications, waivers
from lakeward.registry.waivers import Waiver
from lakeward.spec.model.types import Duration

KIND = "waiver"
"""Kind of the incident about an ended waiver; its subject is `namespace.table/check`."""
_JUDGED = (State.PASS, State.FAIL, State.ERROR)


def waive(
    connection: Connection,
    table: str,
    check: str,
    name: str,
    until: datetime | Duration,
    *,
    author: str,
    reason: str,
) -> Waiver:
    """Waive a check until a time; replaces its current waiver.

    Raises:
        SpecError: the time is in the past.
    """
    now: datetime = connection.execute(select(func.now())).scalar_one()
    end = until if isinstance(until, datetime) else now + until.timedelta
    if end <= now:
        raise SpecError(
            f"Cannot waive a check until {minute(end)}",
            why=f"The time is in the past: the registry's time is {minute(now)}.",
            next="give a later time with --until, or a duration with --for 2h",
            code="LW-5024",
        )
    made = waivers.add(connection, table, check, name, author=author, reason=reason.strip(), until=end)
    text = f"Check {name} is waived until {minute(end)} by {author}: {made.reason}"
    _record_event(connection, made, "waive", text, author, reason)
    incidents.closed(connection, KIND, f"{table}/{check}", text)
    return made


def unwaive(connection: Connection, table: str, check: str, *, author: str, comment: str) -> Waiver:
    """End the waiver of a check before its time.

    Raises:
        Refused: the check has no waiver.
    """
    found = waivers.end(connection, table, check)
    if found is None:
        others = ", ".join(f"{waiver.check} {waiver.name}" for waiver in waivers.in_force(connection, table))
        raise Refused(
            f"Check {check} of {table} has no waiver to end",
            why=f"Waived checks: {others or 'none'}. A waiver in the suite is removed in its file.",
            next=f"lakeward quality show {word(table)}",
            code="LW-5025",
        )
    text = f"The waiver of check {found.name} by {found.author} ({found.reason}) was ended by {author}"
    _record_event(connection, found, "unwaive", text, author, comment)
    return found


def report_ended(connection: Connection) -> list[str]:
    """Report each waiver whose time is over; open an incident if its check failed in the newest run.

    Returns:
        A sentence for each; each waiver is reported once.
    """
    sentences = []
    for waiver in waivers.run_out(connection):
        text = f"The waiver of check {waiver.name} on {waiver.table} by {waiver.author} ({waiver.reason}) has ended"
        bad = _failed(connection, waiver)
        if bad is not None:
            text += f"; the check failed in the newest run{bad}: waived rows are in `verified`, new failures hold it"
            next_ = f"lakeward quality run {word(waiver.table)} --scope table   checks all rows; or waive it again"
            incidents.opened(connection, KIND, f"{waiver.table}/{waiver.check}", text, next=next_)
        events.record(connection, "table", waiver.table, "waiver_over", text, check=waiver.check)
        sentences.append(text)
    return sentences


def close_ended_waivers(connection: Connection, table: str, checks: Sequence[Check], *, whole: bool = False) -> None:
    """A run has new results of the checks: close the incidents about ended waivers.

    Args:
        whole: whether these are all checks of the table's suite: another one was removed, and no run judges it again.
    """
    for check in checks:
        if check.state in _JUDGED:
            text = f"Check {check.id} of {table} was checked again: {check.state}"
            incidents.closed(connection, KIND, f"{table}/{check.id}", text)
    if not (whole and checks):
        return
    known = {f"{table}/{check.id}" for check in checks}
    for kind, subject in incidents.open_ones(connection):
        if kind == KIND and table_of(subject) == table and subject not in known:
            removed = subject.removeprefix(f"{table}/")
            incidents.closed(connection, KIND, subject, f"Check {removed} of {table} is not in its suite any more")


def table_of(subject: str) -> str:
    """The table of an incident about an ended waiver; a table's name may have a slash, the id of a check has none."""
    return subject.rpartition("/")[0]


def _failed(connection: Connection, waiver: Waiver) -> str | None:
    """The failure count in the table's newest run, as words to append; None if the check did not fail."""
    for run in verifications.newest(connection, waiver.table, limit=1):
        for check in verifications.checks_of(connection, run["run"]):
            if check["check"] == waiver.check and check["state"] in (State.FAIL, State.ERROR):
                count = check["unexpected_count"]
                return f" ({count:,} rows, run {run['run']})" if count else f" (run {run['run']})"
    return None


def _record_event(connection: Connection, waiver: Waiver, change: str, text: str, author: str, comment: str) -> None:
    fields = {"check": waiver.check, "until": waiver.until.isoformat()}
    events.record(connection, "table", waiver.table, change, text, **fields)
    changes.record(
        connection, "table", waiver.table, change, author=author, comment=comment, **fields, expectation=waiver.name
    )
