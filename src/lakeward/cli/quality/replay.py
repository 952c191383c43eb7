"""`quality replay`: lands quarantined records that the stream's current generation accepts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of, spark_of
from lakeward.cli.quality.group import app
from lakeward.cli.table_names import plain
from lakeward.platform.text import count


@app.command()
def replay(
    table: Annotated[
        str, typer.Argument(callback=plain, help="The target table of the quarantined rows: namespace.table.")
    ],
    comment: Annotated[str, typer.Option(help="Reason; recorded with the change.")] = "",
    reason: Annotated[
        str | None,
        typer.Option(help="Only rows quarantined for this reason: decode, too_large, ahead, or a rule's name."),
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Only this stream, if several land in the table.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the rows that would land; change nothing.")] = False,
) -> None:
    """Land quarantined records that the stream's current generation accepts, each exactly once.

    Runs beside the stream, in a Spark application of its own. Records that still fail stay, with the reason.
    """
    from lakeward.operations.replay.operation import Replay
    from lakeward.operations.request import Request

    runner = runner_of()
    operation = Replay(runner, Request(Replay.name, table, comment), spark_of(runner), reason=reason, stream=stream)
    done = operate(runner, operation, dry_run=dry_run)
    state().output.either(done.document, "\n".join(line for stream in done.data["streams"] for line in text(stream)))


def text(report: dict[str, Any]) -> list[str]:
    """For people: records landed, records that still fail with the reason, records that cannot be replayed."""
    would = "would land" if report["dry_run"] else "landed"
    lines = [
        f"{report['stream']}: {report['landed']:,} of {count(report['found'], 'record')} {would} in {report['table']} "
        f"by generation {report['generation']}"
    ]
    if report["filtered"]:
        lines.append(f"  filtered  {report['filtered']:,}: the transform filters them now")
    if report["present"]:
        lines.append(f"  present   {report['present']:,}: the table has them already")
    for check in report["failing"]:
        lines.append(f"  still bad {check['count']:,}: {check['reason']}: {'; '.join(check['errors'])}")
    lines += [f"  left      {entry['count']:,}: {entry['why']}" for entry in report["left"]]
    if report["failing"] and report["pending_generation"] is not None:
        waits = f"generation {report['pending_generation']} is pending; replay uses the running one"
        lines.append(f"  next      {waits}: lakeward streams upgrade {report['stream']}")
    return lines
