"""The checks of the page, from the recorded runs: newest verdicts, trends, and the samples that suites let show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import NotRequired, TypedDict

from sqlalchemy import Connection

from lakeward.platform.text import word
from lakeward.quality.results.incident import KIND, landed
from lakeward.quality.results.records import RunDocument, by_stream, recorded
from lakeward.quality.results.trend import Cost, RunLine, Trend, cost, shown, trends
from lakeward.registry import batches, incidents, verifications
from lakeward.registry.engine import now
from lakeward.registry.verifications import CheckResult, Verification
from lakeward.supervision import late_proofs
from lakeward.supervision.late_proofs import Unproven
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
    """The newest check run of a table.

    `unproven`: the commits that no run has proven yet, as the Dag tables_observe saw them last; None if it has not.
    """

    table: str
    verdict: str
    at: datetime
    run: str
    to_snapshot: int | None
    verified_snapshot: int | None
    first_bad_snapshot: int | None
    note: str
    failing: Sequence[FailingCheck]
    unproven: Unproven | None


class Quality(TypedDict):
    """Every table with a check run that the user may see, worst verdict first."""

    now: datetime
    age_s: NotRequired[float]
    stale: NotRequired[str | None]
    tables: Sequence[CheckedTable]


class LandedRange(TypedDict):
    """What one stream landed in a snapshot. `text`: its batches and offsets."""

    stream: str
    text: str


class QualityDetail(TypedDict):
    """The runs of a table, newest first, the trend of each check, and the newest run with its masked sample rows.

    `landed`: by snapshot since which a check fails, what each stream landed in it.
    """

    table: str
    now: datetime
    runs: Sequence[RunLine]
    checks: Sequence[Trend]
    cost: Cost
    newest: RunDocument
    incident: PageIncident | None
    landed: Mapping[str, Sequence[LandedRange]]


def read(connection: Connection) -> Quality:
    """The newest run of each table."""
    runs = verifications.newest_of_tables(connection)
    checks = verifications.checks_of_runs(connection, [run["run"] for run in runs]) if runs else {}
    unproven = late_proofs.newest(connection)
    rows = [_checked(run, checks.get(run["run"], []), unproven.get(run["table"])) for run in runs]
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
    trend = trends(runs, checks)
    return {
        "table": table,
        "now": now(connection),
        "runs": shown(runs),
        "checks": trend,
        "cost": cost(runs),
        "newest": recorded(runs[0], verifications.checks_of(connection, runs[0]["run"])),
        "incident": None if held is None else of_incident(held),
        "landed": _landed(connection, trend, {batch["stream"] for run in runs for batch in run["batches"] or ()}),
    }


def visible(detail: QualityDetail, may_see: Callable[[str], bool]) -> QualityDetail:
    """The detail without streams that the caller may not see, which write to the same table."""
    incident, newest = detail["incident"], detail["newest"]
    if incident is not None and not all(map(may_see, incident["streams"])):
        incident = None
    batches_of_newest = [part for part in newest["batches"] if may_see(part["stream"])]
    landed = {
        snapshot: [part for part in parts if may_see(part["stream"])] for snapshot, parts in detail["landed"].items()
    }
    return {**detail, "newest": {**newest, "batches": batches_of_newest}, "incident": incident, "landed": landed}


def streams_of(detail: QualityDetail) -> set[str]:
    """The streams that the detail names."""
    parts = [*detail["newest"]["batches"], *(part for parts in detail["landed"].values() for part in parts)]
    return {part["stream"] for part in parts} | set(detail["incident"]["streams"] if detail["incident"] else ())


def _landed(connection: Connection, trend: Sequence[Trend], streams: Set[str]) -> dict[str, list[LandedRange]]:
    first = {check["failing_since"]["snapshot"] for check in trend if check["failing_since"] is not None}
    known = batches.of_snapshots(connection, [snapshot for snapshot in first if snapshot is not None])
    found = [batch for batch in known if batch.stream in streams]  # versions of Delta tables are small numbers
    return {
        str(snapshot): [
            {"stream": part["stream"], "text": landed(part)}
            for part in by_stream([it for it in found if it.snapshot_id == snapshot], ())
        ]
        for snapshot in {batch.snapshot_id for batch in found}
    }


def _checked(run: Verification, checks: Sequence[CheckResult], unproven: Unproven | None) -> CheckedTable:
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
        "unproven": None if unproven is None else {**unproven, "error": mask(unproven["error"])},
    }
