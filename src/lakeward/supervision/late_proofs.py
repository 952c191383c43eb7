"""People are told of a table whose proof is late although no check holds it: nobody checks, or none gets an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from lakeward.platform.text import count, moment, span
from lakeward.quality.ranges.verification_lag import first_seen, late_s
from lakeward.quality.results import incident
from lakeward.quality.results.status import ProofStatus
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.registry import heartbeats, incidents

KIND = "verification_lag"
"""Of the incident; its subject is the table."""
_TICK = "unproven"


def watch(connection: Connection, tables: Sequence[ProofStatus], now: datetime) -> list[str]:
    """Open the incident of each table that is late, change it while it lasts, close it when the table is not.

    Returns:
        A sentence for each that is late.
    """
    tick = heartbeats.newest(connection, _TICK)
    seen = first_seen(now, {each.table: each.lag for each in tables}, tick.detail["tables"] if tick else {})
    heartbeats.record(connection, _TICK, duration_s=0.0, tables=seen)
    known = incidents.open_ones(connection)
    told = []
    for each in tables:
        late = late_s(now, each.lag, seen.get(each.table), each.limit.timedelta)
        held = (incident.KIND, each.table) in known  # that message is about the same rows, and says more
        if late is not None and not held:
            text = "\n".join(lines(each, late))
            told.append(text.splitlines()[0])
            if (KIND, each.table) not in known:
                incidents.opened(connection, KIND, each.table, text, next=f"lakeward quality run {each.table}")
        elif (KIND, each.table) in known and not each.error:
            how = "a check holds it now, which has a message of its own" if held else _proven(each)
            incidents.closed(connection, KIND, each.table, f"{each.table} is looked at again: {how}")
    gone = {table for kind, table in known if kind == KIND} - {each.table for each in tables}
    for table in gone:
        incidents.closed(connection, KIND, table, f"{table} has no suite any more: none of its rows is checked")
    return told


def lines(standing: ProofStatus, late: float) -> list[str]:
    """The message."""
    lag, table = standing.lag, standing.table
    rows = f", {count(lag.rows, 'row')}" if lag.rows else ""
    since = f" of {moment(lag.since)}" if lag.since else ""
    told = [
        f"{table}: {count(lag.snapshots, 'commit')}{rows} not proven for {span(late)}, the limit is {standing.limit}; "
        f"since snapshot {lag.oldest}{since}"
    ]
    proof: Any = standing.proof
    told.append(
        f"readers of `verified` are on snapshot {proof['to_snapshot']}, proven {moment(proof['at'])}; "
        "the stream goes on landing"
        if proof is not None
        else "nothing is verified yet; the stream goes on landing"
    )
    told.append(f"why: {_why(standing)}")
    told.append(f"do: lakeward quality run {table}   and: lakeward stack status   is quality_check paused in Airflow?")
    return told


def _why(standing: ProofStatus) -> str:
    newest: Any = standing.newest
    if newest is None:
        return "no check run has ever looked at it"
    at = moment(newest["at"])
    if newest["verdict"] == Verdict.ERROR:
        return f"the newest run, of {at}, could not check it: {newest['note'] or 'see quality show'}"
    return f"no check run has looked since {at}"


def _proven(standing: ProofStatus) -> str:
    proof: Any = standing.proof
    if proof is None:
        return "nothing of it waits for a proof any more"
    return f"proven up to snapshot {proof['to_snapshot']} at {moment(proof['at'])}"
