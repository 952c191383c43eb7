"""The maintenance ledger: the actions on a table, and what they saved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypedDict

from sqlalchemy import Connection

from lakeward.platform.text import count, minute, size, span
from lakeward.registry import maintenance
from lakeward.registry.maintenance import Figures, LedgerRow
from lakeward.tables.hold import registered

ROWS: Final = 1000  # newest rows of the ledger that savings are computed from
MILLION_REQUESTS: Final = 0.40  # US dollars for a million reads of an object: the list price of the large stores
FORMULA: Final = (
    "files_removed = sum over good compactions of files_taken - files_given; "
    "a full scan then sends that many requests fewer, request_saving_usd_per_scan = files_removed x "
    "price_per_million_requests_usd / 1,000,000; "
    "rewritten_bytes = sum over good compactions of the bytes they took; cpu_s = sum over all actions, failed ones too"
)


class ActionEntry(TypedDict):
    """One action of a maintenance run in the JSON of `tables maintain`. `change` is the change in words."""

    action: str
    result: str
    before: Figures
    after: Figures
    change: str
    duration_s: float
    cpu_s: float | None
    verified: bool
    why: str


class LedgerEntry(TypedDict):
    """One action in the JSON of `tables history`; `result` is null while the action runs."""

    action: str
    result: str | None
    verified: bool | None
    started_at: datetime
    finished_at: datetime | None
    duration_s: float | None
    cpu_s: float | None
    why: str
    change: str
    before: Figures
    after: Figures


class History(TypedDict):
    """The JSON of `tables history`, newest action first."""

    table: str
    actions: list[LedgerEntry]


class Savings(TypedDict):
    """The JSON of `tables savings`, with the formula."""

    table: str
    since: datetime | None
    actions: int
    failed: int
    files_removed: int
    rewritten_bytes: int
    snapshots_expired: int
    duration_s: float
    cpu_s: float
    price_per_million_requests_usd: float
    request_saving_usd_per_scan: float
    formula: str


def history(connection: Connection, table: str, limit: int = 50) -> History:
    """`tables history -o json`: the newest actions of a table, newest first.

    Raises:
        SpecError: the table does not exist.
    """
    registered(connection, table)
    return {"table": table, "actions": [entry(row) for row in maintenance.newest_actions(connection, table, limit)]}


def savings(connection: Connection, table: str, price: float = MILLION_REQUESTS) -> Savings:
    """`tables savings -o json`: savings and cost of the actions in the ledger, with the formula.

    Raises:
        SpecError: the table does not exist.
    """
    registered(connection, table)
    return saved(table, maintenance.newest_actions(connection, table, ROWS), price)


def entry(row: LedgerRow) -> LedgerEntry:
    """One row of the ledger. `change` is the change in words; `result` is null while the action runs."""
    return {
        "action": row["action"],
        "result": row["result"],
        "verified": row["verified"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "duration_s": row["duration_s"],
        "cpu_s": row["cpu_s"],
        "why": row["why"],
        "change": change(row["before"] or {}, row["after"] or {}),
        "before": row["before"] or {},
        "after": row["after"] or {},
    }


def saved(table: str, rows: Sequence[LedgerRow], price: float) -> Savings:
    """Savings over the rows of one table; `price` in US dollars for a million requests."""
    good = [row for row in rows if row["result"] == "done"]
    compactions = [(row["before"] or {}, row["after"] or {}) for row in good if row["action"] == "compact"]
    removed = sum(int(a.get("files_taken") or 0) - int(a.get("files_given") or 0) for _, a in compactions)
    expired = [row["after"] or {} for row in good if row["action"] == "expire"]
    begun = min((row["started_at"] for row in rows), default=None)
    return {
        "table": table,
        "since": begun,
        "actions": len(rows),
        "failed": sum(row["result"] in ("failed", "timed_out") for row in rows),
        "files_removed": removed,
        "rewritten_bytes": sum(int(b.get("promised_bytes") or 0) for b, _ in compactions),
        "snapshots_expired": sum(int(each.get("snapshots_expired") or 0) for each in expired),
        "duration_s": round(sum(float(row["duration_s"] or 0) for row in rows), 3),
        "cpu_s": round(sum(float(row["cpu_s"] or 0) for row in rows), 3),
        "price_per_million_requests_usd": price,
        "request_saving_usd_per_scan": removed * price / 1_000_000,
        "formula": FORMULA,
    }


def sentences(data: Savings) -> list[str]:
    """Savings as lines for a person."""
    since = f" since {minute(data['since'])}" if data["since"] else ""
    return [
        f"{data['table']}: {count(data['actions'], 'action')}{since}, {data['failed']} of them failed",
        f"  a full scan opens {count(data['files_removed'], 'file')} fewer, "
        f"{data['request_saving_usd_per_scan']:.6f} USD a scan at {data['price_per_million_requests_usd']:.2f} USD a "
        "million requests",
        f"  {count(data['snapshots_expired'], 'snapshot')} expired",
        f"  for {size(data['rewritten_bytes'])} rewritten, {span(data['duration_s'])}, {data['cpu_s']:.1f} CPU-seconds",
        f"  {data['formula']}",
    ]


def finish_action(connection: Connection, action_id: int, entry: ActionEntry) -> None:
    """Record the end of an action that `begin_action` recorded."""
    maintenance.finish_action(
        connection,
        action_id,
        result=entry["result"],
        verified=entry["verified"],
        why=entry["why"],
        after=entry["after"],
        duration_s=entry["duration_s"],
        cpu_s=entry["cpu_s"],
    )


def change(before: Figures, after: Figures) -> str:
    """The change by an action, in words: `40 → 3 files, 9 → 4 snapshots`."""
    words = []
    keys: tuple[Literal["files", "manifests", "snapshots"], ...] = ("files", "manifests", "snapshots")
    for key in keys:
        was, became = before.get(key), after.get(key)
        if was is not None and became is not None and was != became:
            words.append(f"{was} → {became} {key}")
    return ", ".join(words)
