"""`quality history`: trend of each check of a table, failing since, cost of the runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import Table
from lakeward.cli.quality.text import check_name
from lakeward.platform.errors import LakewardError
from lakeward.platform.text import count, span, word

if TYPE_CHECKING:
    from lakeward.quality.results.trend import History, Trend

_MARKS = {"pass": ".", "fail": "X", "error": "?", "skipped": " "}


@app.command()
def history(
    table: Table,
    last: Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of runs, newest first.")] = 50,
) -> None:
    """Trend of every check: failing since when and with which snapshot, recovered when, and the cost of the runs."""
    from lakeward.quality.results.trend import cost, shown, trends
    from lakeward.registry import verifications

    with state().registry() as connection:
        runs = verifications.newest(connection, table, limit=last)
        checks = verifications.checks_of_runs(connection, [run["run"] for run in runs])
    if not runs:
        raise LakewardError(f"{table} has no check run", next=f"lakeward quality run {word(table)}", code="LW-1207")
    data: History = {"table": table, "runs": shown(runs), "checks": trends(runs, checks), "cost": cost(runs)}
    state().output.either(data, text(data, datetime.now(UTC)))


def text(data: History, now: datetime) -> str:
    """For people: one line a check, a mark a run, oldest first (`.` pass, `X` fail, `?` not computed)."""
    runs, spent = data["runs"], data["cost"]
    lines = [
        f"{data['table']}: {count(len(runs), 'run')} since {_time(runs[-1]['at'])}, newest {runs[0]['verdict']}   "
        f"{count(spent['spark_jobs'], 'Spark job')}, {spent['duration_s']:g} s"
    ]
    width = max((len(check_name(check)) for check in data["checks"]), default=0)
    for result in sorted(data["checks"], key=lambda check: ("fail", "error", "pass", "skipped").index(check["state"])):
        marks = "".join(_MARKS[point["state"]] for point in result["points"])
        line = f"  {result['state']:<7} {result['severity']:<8} {check_name(result):<{width}}  {marks}"
        lines.append(line.rstrip() + _since(result, now))
    return "\n".join(lines)


def _since(check: Trend, now: datetime) -> str:
    failing, recovered = check["failing_since"], check["recovered"]
    if failing:
        snapshot = f", {failing['noun']} {failing['snapshot']}" if failing["snapshot"] is not None else ""
        direction = f", {check['direction']}" if check["direction"] else ""
        age = span((now - failing["at"]).total_seconds())
        return f"  failing since {_time(failing['at'])} ({age}){snapshot}{direction}"
    if recovered:
        return f"  recovered {_time(recovered['at'])} after {span(recovered['failed_s'])}"
    return ""


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%m-%d %H:%M")
