"""Recent changes around a stream: deploys, operations, restarts, maintenance, commits of other writers, failed checks.

Most incidents are caused by one of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import changes, events, maintenance, verifications
from lakeward.registry.changes import Change
from lakeward.registry.events import Event
from lakeward.registry.maintenance import LedgerRow
from lakeward.registry.streams import Stream
from lakeward.supervision.report.sources import Commit

WINDOW = timedelta(hours=6)
_READ = 200
_DRIVER_KINDS = {"launched", "adopted", "killed", "failed", "exited", "unstuck", "apart"}
_STREAM_KINDS = {"failed", "blocked", "started", "hung", "stable", "taken-back"}
_ALL_KINDS = {"dependency", "thrash"}
_SLACK = timedelta(minutes=1)
"""A commit this close to a maintenance action is attributed to it."""


class RecentDocument(TypedDict):
    """One recent change in the JSON of `streams status`."""

    at: datetime
    what: str
    text: str
    times: int
    first: datetime | None


@dataclass(frozen=True)
class Recent:
    """One recent change.

    Attributes:
        what: deploy | people | driver | stream | maintenance | commit | check.
        times: number of occurrences; `at` is the newest.
        first: time of the first occurrence; None if there is only one.
    """

    at: datetime
    what: str
    text: str
    times: int = 1
    first: datetime | None = None

    def document(self) -> RecentDocument:
        """The JSON form."""
        return {"at": self.at, "what": self.what, "text": self.text, "times": self.times, "first": self.first}


def read(connection: Connection, stream: Stream, table: str | None, since: datetime) -> list[Recent]:
    """The changes that the registry has, oldest first."""
    items = [
        Recent(row.at, "deploy" if row.change == "deploy" else "people", _change(row))
        for row in changes.newest(connection, "stream", stream.id, _READ)
    ]
    items += _events(connection, "driver", stream.driver, _DRIVER_KINDS)
    items += _events(connection, "stream", stream.id, _STREAM_KINDS)
    items += [
        Recent(row.at, "stream", row.text)
        for row in events.newest(connection, "stack", "streams", _READ)
        if row.kind in _ALL_KINDS and stream.id in (_streams(row) or [stream.id])
    ]
    if table is not None:
        items += [
            Recent(row["started_at"], "maintenance", _action(table, row))
            for row in maintenance.newest_actions(connection, table, _READ)
        ]
        items += [
            Recent(row["at"], "check", f"quality of {table}: {row['verdict']}")
            for row in verifications.newest(connection, table, limit=_READ)
            if row["verdict"] != "pass"
        ]
    return sorted((item for item in items if item.at >= since), key=lambda item: item.at)


def of_others(connection: Connection, table: str, commits: Sequence[Commit]) -> list[Recent]:
    """The commits of other writers: no stream and no maintenance action made them."""
    ours = [
        (row["started_at"] - _SLACK, (row["finished_at"] or row["started_at"]) + _SLACK)
        for row in maintenance.newest_actions(connection, table, _READ)
    ]
    return [
        Recent(item.at, "commit", f"{item.operation} of {table} by another writer: snapshot {item.snapshot}")
        for item in commits
        if not any(begin <= item.at <= end for begin, end in ours)
    ]


def folded(items: Iterable[Recent]) -> list[Recent]:
    """Repeated changes become one entry with a count; numbers and ids in the text may differ."""
    entries: list[Recent] = []
    at: dict[tuple[str, str], int] = {}
    for item in sorted(items, key=lambda item: item.at):
        key = (item.what, re.sub(r"\d+", "#", item.text))
        if key not in at:
            at[key] = len(entries)
            entries.append(item)
            continue
        before = entries[at[key]]
        entries[at[key]] = Recent(item.at, item.what, item.text, before.times + 1, before.first or before.at)
    return sorted(entries, key=lambda item: item.at)


def _events(connection: Connection, scope: str, name: str, kinds: set[str]) -> list[Recent]:
    return [
        Recent(row.at, scope, row.text if scope == "stream" else f"driver {name}: {row.text}")
        for row in events.newest(connection, scope, name, _READ)
        if row.kind in kinds
    ]


def _streams(row: Event) -> list[object]:
    """The streams that an event of all streams names."""
    named = row.fields.get("streams")
    return named if isinstance(named, list) else []


def _change(row: Change) -> str:
    comment = f": {row.comment}" if row.comment else ""
    return f"{row.change} by {row.author}{comment}"


def _action(table: str, row: LedgerRow) -> str:
    result = row["result"] or "is under way"
    took = f" in {span(row['duration_s'])}" if row["duration_s"] is not None else ""
    why = "" if row["result"] in ("done", None) else f": {row['why']}"
    return f"{row['action']} of {table} {result}{took}{why}"
