"""The tables of the page, from what observations, plans and the ledger of maintenance recorded. No catalog is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, NotRequired, TypedDict, cast

from sqlalchemy import Connection

from lakeward.platform.boundary import Failure, attempt
from lakeward.registry import maintenance, verifications
from lakeward.registry.engine import now
from lakeward.registry.maintenance import Figures, LedgerRow, StoredFacts, Table
from lakeward.tables import ledger
from lakeward.tables.documents import Pin
from lakeward.telemetry.mask import mask
from lakeward.web.table_trouble import TableTrouble, troubles

FIGURES = (
    "files", "small_files", "delete_files", "deleted_rows", "manifests", "snapshots", "metadata_files", "size_bytes",
    "records", "commits_last_hour",
)  # fmt: skip
BEFORE_AFTER = (
    "files", "small_files", "size_bytes", "records", "delete_files", "manifests", "snapshots", "metadata_files",
    "snapshots_expired", "files_deleted", "deleted_files", "deleted_bytes", "spared_files", "commits",
)  # fmt: skip


class ActionRow(TypedDict):
    """One maintenance action. `before`, `after`: the figures of `BEFORE_AFTER` that were recorded."""

    id: int
    action: str
    result: str | None
    verified: bool | None
    why: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    started_at: datetime
    finished_at: datetime | None
    duration_s: float | None
    cpu_s: float | None


class TableRow(TypedDict):
    """One table.

    Attributes:
        figures: those of `FIGURES` that were observed.
        due_since: an action has been due since then.
        pins: who keeps snapshots that the policy would expire, as `tables readers -o json` says; the most first.
    """

    table: str
    format: str
    location: str | None
    observed_at: datetime | None
    figures: Mapping[str, float]
    streams: Sequence[str]
    due_since: datetime | None
    hold_until: datetime | None
    expiry_hold: str | None
    pins: Sequence[Pin]
    verdict: str | None
    last_action: ActionRow | None


class Tables(TypedDict):
    """Every registered table that the user may see: held ones and those with due maintenance first."""

    now: datetime
    age_s: NotRequired[float]
    stale: NotRequired[str | None]
    tables: Sequence[TableRow]


class PlannedAction(TypedDict):
    """An action of a plan, and why it is due."""

    action: str
    why: str


class NotPlanned(TypedDict):
    """An action that a plan leaves out, why, and when it is due at the earliest; None if nothing is due."""

    action: str
    why: str
    next_at: str | None


class RecordedPlan(TypedDict):
    """The newest plan of a table."""

    at: datetime
    actions: Sequence[PlannedAction]
    not_planned: Sequence[NotPlanned]


class Moment(TypedDict):
    """The figures of a table at one observation."""

    at: datetime
    figures: Mapping[str, float]


class TableDetail(TypedDict):
    """One table: its row, its newest actions, its newest plan as recorded, its figures over time (oldest first).

    `savings`: what maintenance saved and cost, in sentences. `troubles`: what is wrong, the worst first.
    """

    now: datetime
    table: TableRow
    actions: Sequence[ActionRow]
    plan: RecordedPlan | None
    health: Sequence[Moment]
    savings: Sequence[str]
    troubles: Sequence[TableTrouble]


def read(connection: Connection) -> Tables:
    """All tables."""
    known, facts = maintenance.all_tables(connection), maintenance.newest_figures(connection)
    due, last = maintenance.due_since(connection), maintenance.newest_action_of_tables(connection)
    verdicts = {run["table"]: run["verdict"] for run in verifications.newest_of_tables(connection)}
    rows = [
        _row(table, facts.get(name), due.get(name), verdicts.get(name), last.get(name)) for name, table in known.items()
    ]
    return {"now": now(connection), "tables": sorted(rows, key=_order)}


def detail(connection: Connection, row: TableRow, limit: int = 50) -> TableDetail:
    """What else is recorded of the table of a row."""
    name = row["table"]
    return {
        "now": now(connection),
        "table": row,
        "actions": [_action(item) for item in maintenance.newest_actions(connection, name, limit)],
        "plan": _plan(maintenance.newest_plan(connection, name)),
        "health": [
            {"at": moment.at, "figures": _figures(moment)}
            for moment in maintenance.figures_over_time(connection, name, 200)
        ],
        "savings": ledger.sentences(ledger.savings(connection, name)),
        "troubles": troubles(
            name, verdict=row["verdict"], expiry_hold=row["expiry_hold"], action=row["last_action"], pins=row["pins"]
        ),
    }


def _order(row: TableRow) -> tuple[bool, bool, float, str]:
    due = row["due_since"].timestamp() if row["due_since"] is not None else inf
    failed = row["last_action"] is not None and row["last_action"]["result"] in ("failed", "timed_out")
    held = row["verdict"] in ("hold", "error")
    return not held, not failed, due, row["table"]


def _row(
    table: Table, facts: StoredFacts | None, due: datetime | None, verdict: str | None, last: LedgerRow | None
) -> TableRow:
    streams = (facts.facts if facts else {}).get("streams")
    return {
        "table": table.name,
        "format": table.format,
        "location": table.location,
        "observed_at": facts.at if facts else None,
        "figures": _figures(facts),
        "streams": [str(stream) for stream in streams] if isinstance(streams, list) else [],
        "due_since": due,
        "hold_until": table.hold_until,
        "pins": [] if facts is None else _pins(table.name, facts),
        "expiry_hold": None if table.expiry_hold is None else mask(table.expiry_hold),
        "verdict": verdict,
        "last_action": None if last is None else _action(last),
    }


def _pins(table: str, facts: StoredFacts) -> list[Pin]:
    """As the newest observation stored them; what another version stored may not be readable."""
    stored = cast("list[dict[str, Any]]", facts.facts.get("pins") or [])
    read = [attempt(f"a pin of table {table}", partial(_pin, item)) for item in stored]
    return [pin for pin in read if not isinstance(pin, Failure)]


def _pin(item: dict[str, Any]) -> Pin:
    return {
        "kind": str(item["kind"]),
        "who": str(item["who"]),
        "stream": item["stream"],
        "why": mask(str(item["why"])),
        "since": datetime.fromisoformat(item["since"]),
        "snapshots": int(item["snapshots"]),
        "bytes": None if item["bytes"] is None else int(item["bytes"]),
        "next": str(item["next"]),
    }


def _plan(recorded: Mapping[str, object] | None) -> RecordedPlan | None:
    if recorded is None:
        return None
    stored = cast("dict[str, Any]", recorded)
    return {
        "at": stored["at"],
        "actions": [_planned(item) for item in stored.get("actions") or []],
        "not_planned": [{**_planned(item), "next_at": item.get("next_at")} for item in stored.get("not_planned") or []],
    }


def _planned(item: Mapping[str, Any]) -> PlannedAction:
    """An action of a plan; a plan of another version may lack a field."""
    return {"action": str(item.get("action") or ""), "why": mask(str(item.get("why") or ""))}


def _figures(facts: StoredFacts | None) -> dict[str, float]:
    return {} if facts is None else _numbers(facts.facts, FIGURES)


def _action(row: LedgerRow) -> ActionRow:
    return {
        "id": row["id"],
        "action": row["action"],
        "result": row["result"],
        "verified": row["verified"],
        "why": mask(row["why"]),
        "before": _recorded(row["before"]),
        "after": _recorded(row["after"]),
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "duration_s": row["duration_s"],
        "cpu_s": row["cpu_s"],
    }


def _recorded(figures: Figures | None) -> dict[str, float]:
    return _numbers(cast("Mapping[str, object]", figures or {}), BEFORE_AFTER)


def _numbers(stored: Mapping[str, object], names: Sequence[str]) -> dict[str, float]:
    return {name: value for name in names if isinstance(value := stored.get(name), int | float)}
