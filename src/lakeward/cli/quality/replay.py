"""`quality replay`: what was kept aside and is good by now lands in its table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.operate import operate, runner_of, spark_of
from lakeward.cli.quality.group import app
from lakeward.platform.text import count


@app.command()
def replay(
    table: Annotated[str, typer.Argument(help="The table the rows should have landed in: namespace.table.")],
    comment: Annotated[str, typer.Option(help="Why; kept with the change.")] = "",
    reason: Annotated[
        str | None, typer.Option(help="Only rows put aside for this reason: decode, too_large, or a rule's name.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Only this stream, where several land in the table.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would land; change nothing.")] = False,
) -> None:
    """Land the rows of a quarantine that the stream's current generation finds good, each exactly once.

    Beside the running stream; starts a Spark of its own. What is still bad stays, with the reason told.
    """
    from lakeward.operations.replay.operation import Replay
    from lakeward.operations.request import Request

    runner = runner_of()
    operation = Replay(runner, Request(Replay.name, table, comment), spark_of(runner), reason=reason, stream=stream)
    data = operate(runner, operation, dry_run=dry_run).document
    state().output.either(data, "\n".join(line for each in data["streams"] for line in text(each)))


def text(found: dict[str, Any]) -> list[str]:
    """For people: what landed, what is still bad and why, what cannot be replayed."""
    would = "would land" if found["dry_run"] else "landed"
    lines = [
        f"{found['stream']}: {found['landed']:,} of {count(found['found'], 'record')} {would} in {found['table']} "
        f"by generation {found['generation']}"
    ]
    if found["filtered"]:
        lines.append(f"  filtered  {found['filtered']:,}: the transform drops them now")
    if found["present"]:
        lines.append(f"  present   {found['present']:,}: the table had them already")
    for each in found["failing"]:
        lines.append(f"  still bad {each['count']:,}: {each['reason']}: {'; '.join(each['errors'])}")
    lines += [f"  left      {each['count']:,}: {each['why']}" for each in found["left"]]
    if found["failing"] and found["pending_generation"] is not None:
        waits = f"generation {found['pending_generation']} waits; a replay takes the one that runs"
        lines.append(f"  next      {waits}: lakeward streams upgrade {found['stream']}")
    return lines
