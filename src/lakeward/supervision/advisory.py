"""Early warnings of a table, read from the registry, as data and in words. Advisory: the check decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.quality.advisory.counted import Counters, of
from lakeward.quality.advisory.status import Decided, Early, standing
from lakeward.registry import batches, counters, generations, verifications

BATCHES, RUNS = 500, 20
"""The newest batches of a stream and runs of a table that are looked at."""


def counted_by(connection: Connection, table: str) -> Counters | None:
    """What the rows of a table are counted by while they land; None where no run has said so of late."""
    said = counters.said(connection, [table]).get(table)
    return None if said is None else of(said[1])


def read(
    connection: Connection, table: str, now: datetime, streams: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The warnings that stand, as documents.

    Args:
        table: namespace.table.
        now: the registry's time.
        streams: of these only; None: of all that land in the table.
    """
    known = counted_by(connection, table)
    if known is None or not known.counted:
        return []
    names = _landing_in(connection, table) if streams is None else streams
    rows = [each for name in names for each in batches.advised(connection, name, BATCHES)]
    runs = verifications.newest(connection, table, limit=RUNS)
    checks = verifications.checks_of_runs(connection, [each["run"] for each in runs])
    decided = [Decided.of(each, checks.get(each["run"], [])) for each in runs]
    return [document(each, now) for each in standing(known, rows, decided)]


def _landing_in(connection: Connection, table: str) -> list[str]:
    found = generations.latest(connection)
    return sorted(
        name
        for name, each in found.items()
        if any(isinstance(sink, dict) and sink.get("table") == table for sink in (each.spec.get("sink") or {}).values())
    )


def document(early: Early, now: datetime) -> dict[str, Any]:
    """A warning as JSON data."""
    age = (now - early.since).total_seconds()
    return {
        "check": early.counted.check,
        "name": early.counted.name,
        "severity": early.counted.severity,
        "stream": early.stream,
        "failing": early.failing,
        "rows": early.rows,
        "from_batch": early.first,
        "to_batch": early.newest,
        "since_batch": early.since_batch,
        "since_seq": early.since_seq,
        "since": early.since,
        "age_s": age,
        "text": _text(early, age),
    }


def _text(early: Early, age: float) -> str:
    one = early.first == early.newest
    of_them = f"batch {early.newest}" if one else f"batches {early.first} to {early.newest}"
    return (
        f"{early.counted.name}: {early.failing:,} of {early.rows:,} rows of {of_them} "
        f"(since seq {early.since_seq}, {span(age)} ago); the check decides"
    )
