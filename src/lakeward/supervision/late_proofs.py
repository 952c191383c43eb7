"""Verification lag: open an incident for a table whose proof is late because checks do not run or do not complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, cast

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from lakeward.platform.boundary import attempt
from lakeward.platform.text import count, moment, span, word
from lakeward.quality.ranges.verification_lag import FirstSeen, first_seen, late_s
from lakeward.quality.results import incident
from lakeward.quality.results.status import ProofStatus
from lakeward.quality.verdicts import waive
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.registry import heartbeats, incidents

KIND = "verification_lag"
"""Kind of the incident; its subject is the table."""
_TICK = "unproven"


class Unproven(TypedDict):
    """The commits of a table that no check run has proven yet, as the newest observation counted them.

    Attributes:
        rows: those that appends added.
        since: commit time of the oldest one, RFC 3339; None if every commit is proven.
        limit_s: `limits.verification_lag` of the suite.
        error: why it is not known; empty otherwise.
    """

    snapshots: int
    rows: int
    since: str | None
    limit_s: float
    error: str


def watch(connection: Connection, tables: Sequence[ProofStatus], now: datetime) -> list[str]:
    """Open an incident for each table whose proof is late; close it when the proof is on time.

    Returns:
        A sentence for each late table.
    """
    tick = heartbeats.newest(connection, _TICK)
    seen = first_seen(
        now,
        {status.table: status.lag for status in tables},
        cast("dict[str, FirstSeen]", tick.detail["tables"]) if tick else {},
    )
    heartbeats.record(
        connection, _TICK, duration_s=0.0, tables=seen, unproven={status.table: _unproven(status) for status in tables}
    )
    known = incidents.open_ones(connection)
    late_tables = []
    for status in tables:
        reported = attempt(
            f"proof of table {status.table}",
            partial(_of_table, connection, status, seen.get(status.table), set(known), now),
            through=(OperationalError,),
            within=connection.begin_nested,
        )
        if isinstance(reported, str):
            late_tables.append(reported)
    with_suite = {status.table for status in tables}
    for kind, subject in known:
        table = waive.table_of(subject) if kind == waive.KIND else subject
        if kind in (KIND, incident.KIND, waive.KIND) and table not in with_suite:
            incidents.closed(connection, kind, subject, f"{table} has no suite any more: its rows are not checked")
    return late_tables


def newest(connection: Connection) -> Mapping[str, Unproven]:
    """Table -> its unproven commits, as `watch` recorded them last; empty before the first time."""
    tick = heartbeats.newest(connection, _TICK)
    return cast("Mapping[str, Unproven]", tick.detail.get("unproven", {})) if tick else {}


def _unproven(status: ProofStatus) -> Unproven:
    lag = status.lag
    return {
        "snapshots": lag.snapshots,
        "rows": lag.rows,
        "since": lag.since.isoformat() if lag.since else None,
        "limit_s": status.limit.seconds,
        "error": status.error,
    }


def _of_table(
    connection: Connection, status: ProofStatus, seen: FirstSeen | None, known: set[tuple[str, str]], now: datetime
) -> str | None:
    """Open or close the incident of one table; returns a sentence if its proof is late."""
    late = late_s(now, status.lag, seen, status.limit.timedelta)
    held = (incident.KIND, status.table) in known  # that incident is about the same rows, and says more
    if late is not None and not held:
        text = "\n".join(lines(status, late))
        if (KIND, status.table) not in known:
            incidents.opened(connection, KIND, status.table, text, next=f"lakeward quality run {word(status.table)}")
        return text.splitlines()[0]
    if (KIND, status.table) in known and not status.error:
        how = "a check holds it now, which has an incident of its own" if held else _proven(status)
        incidents.closed(connection, KIND, status.table, f"{status.table} is checked again: {how}")
    return None


def lines(status: ProofStatus, late: float) -> list[str]:
    """The text of the incident."""
    lag, table = status.lag, status.table
    rows = f", {count(lag.rows, 'row')}" if lag.rows else ""
    since = f" of {moment(lag.since)}" if lag.since else ""
    result = [
        f"{table}: {count(lag.snapshots, 'commit')}{rows} not proven for {span(late)}, the limit is {status.limit}; "
        f"since snapshot {lag.oldest}{since}"
    ]
    proof: Any = status.proof
    result.append(
        f"readers of `verified` are on snapshot {proof['to_snapshot']}, proven {moment(proof['at'])}; "
        "the stream continues"
        if proof is not None
        else "nothing is verified yet; the stream continues"
    )
    result.append(f"why: {_why(status)}")
    result.append(
        f"do: lakeward quality run {word(table)}   and: lakeward stack status   is quality_check paused in Airflow?"
    )
    return result


def _why(status: ProofStatus) -> str:
    newest: Any = status.newest
    if newest is None:
        return "no check run has ever checked it"
    at = moment(newest["at"])
    if newest["verdict"] == Verdict.ERROR:
        return f"the newest run, of {at}, could not check it: {newest['note'] or 'see quality show'}"
    return f"no check run has checked it since {at}"


def _proven(status: ProofStatus) -> str:
    proof: Any = status.proof
    if proof is None:
        return "no commit of it waits for a proof any more"
    return f"proven up to snapshot {proof['to_snapshot']} at {moment(proof['at'])}"
