"""`streams preview`: run a file's transform on the source's newest records."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Stream, app

if TYPE_CHECKING:
    from lakeward.operations.preview import Preview

MOST = 1000


@app.command()
def preview(
    stream: Stream,
    rows: Annotated[int, typer.Option(min=1, max=MOST, help="how many records of each source, the newest")] = 20,
) -> None:
    """Run the transform of the stream's file on its source's newest records. Read only; no deploy is needed."""
    from lakeward.cli.config import of_project
    from lakeward.engine import analysis
    from lakeward.operations import preview as previewing

    spec, runtime = of_project(stream).spec, state().runtime
    samples = previewing.newest_samples(spec, runtime, rows)
    with analysis.session([spec], runtime) as spark:
        result = previewing.of(spark, spec, runtime, samples, rows)
    state().output.either({"stream": stream, **asdict(result)}, text(result))


def text(result: Preview) -> str:
    """For people: a row a line, then the records that would go to quarantine."""
    lines = [
        f"{result.read:,} records read, {result.landed:,} rows would land, {len(result.quarantined):,} quarantined"
    ]
    lines += [f"  {json.dumps(row, ensure_ascii=False)}" for row in result.rows]
    if result.landed > len(result.rows):
        lines.append(f"  and {result.landed - len(result.rows):,} more")
    lines += [
        f"quarantined  {record['record'] or record['source']}: {record['reason']}: {record['error']}"
        for record in result.quarantined
    ]
    lines += ["columns", *(f"  {name} {kind}" for name, kind in result.columns.items())]
    return "\n".join([*lines, *(f"note   {note}" for note in result.notes)])
