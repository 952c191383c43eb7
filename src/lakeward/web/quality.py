"""The checks of the page, from the recorded runs: newest verdicts, trends, and the samples that suites let show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

from sqlalchemy import Connection

from lakeward.platform.text import word
from lakeward.quality.results.incident import KIND
from lakeward.quality.results.records import RunDocument, recorded
from lakeward.quality.results.trend import Cost, RunLine, Trend, cost, shown, trends
from lakeward.registry import incidents, verifications
from lakeward.registry.engine import now
from lakeward.registry.verifications import CheckResult, Verification
from lakeward.telemetry.mask import mask
from lakeward.web.errors import NotFound
from lakeward.web.open_incidents import PageIncident, of_incident

RUNS = 50
_VERDICTS = ("error", "hold", "warn", "pass")


class FailingCheck(TypedDict):
    """A check of the newest run that failed or could not be computed."""

    check: str
    expectation: str
    severity: str
    state: str
    unexpected_count: int | None


class CheckedTable(TypedDict):
    """The newest check run of a table."""

    table: str
    verdict: str
    at: datetime
    run: str
    to_snapshot: int | None
    verified_snapshot: int | None
    first_bad_snapshot: int | None
    note: str
    failing: Sequence[FailingCheck]


class Quality(TypedDict):
    """Every table with a check run that the user may see, worst verdict first."""

    now: datetime
    age_s: NotRequired[float]
    stale: NotRequired[str | None]
    tables: Sequence[CheckedTable]


class QualityDetail(TypedDict):
    """The runs of a table, newest first, the trend of each check, and the newest run with its masked sample rows."""

    table: str
    now: datetime
    runs: Sequence[RunLine]
    checks: Sequence[Trend]
    cost: Cost
    newest: RunDocument
    incident: PageIncident | None


def read(connection: Connection) -> Quality:
    """The newest run of each table."""
    runs = verifications.newest_of_tables(connection)
    checks = verifications.checks_of_runs(connection, [run["run"] for run in runs]) if runs else {}
    rows = [_checked(run, checks.get(run["run"], [])) for run in runs]
    rows.sort(key=lambda row: (_VERDICTS.index(row["verdict"]) if row["verdict"] in _VERDICTS else 0, row["table"]))
    return {"now": now(connection), "tables": rows}


def detail(connection: Connection, table: str) -> QualityDetail:
    """The recorded runs of one table.

    Raises:
        NotFound: it has no check run.
    """
    runs = verifications.newest(connection, table, limit=RUNS)
    if not runs:
        raise NotFound(f"{table} has no check run", next=f"lakeward quality run {word(table)}", code="LW-5901")
    checks = verifications.checks_of_runs(connection, [run["run"] for run in runs])
    held = incidents.open_ones(connection).get((KIND, table))
    return {
        "table": table,
        "now": now(connection),
        "runs": shown(runs),
        "checks": trends(runs, checks),
        "cost": cost(runs),
        "newest": recorded(runs[0], verifications.checks_of(connection, runs[0]["run"])),
        "incident": None if held is None else of_incident(held),
    }


def _checked(run: Verification, checks: Sequence[CheckResult]) -> CheckedTable:
    return {
        "table": run["table"],
        "verdict": run["verdict"],
        "at": run["at"],
        "run": run["run"],
        "to_snapshot": run["to_snapshot"],
        "verified_snapshot": run["verified_snapshot"],
        "first_bad_snapshot": run["first_bad_snapshot"],
        "note": mask(run["note"]),
        "failing": [
            {
                "check": check["check"],
                "expectation": check["expectation"],
                "severity": check["severity"],
                "state": check["state"],
                "unexpected_count": check["unexpected_count"],
            }
            for check in checks
            if check["state"] in ("fail", "error")
        ],
    }
