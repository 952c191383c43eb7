"""`quality docs`: Great Expectations' Data Docs of the newest check runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.table_names import plain
from lakeward.platform.errors import LakewardError


@app.command()
def docs(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...", callback=plain, help="namespace.table; by default every table with a check run."
        ),
    ] = None,
    last: Annotated[int, typer.Option("-n", min=1, max=200, help="Number of runs of each table, newest first.")] = 20,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Target folder; by default data-docs in the home.")
    ] = None,
) -> None:
    """Build Data Docs: HTML pages with the results and failing examples of the newest runs of each table.

    The pages are rebuilt from the results in the registry on each call. No check runs, and the pages load nothing.
    """
    from lakeward.platform.text import count, word
    from lakeward.quality.results.data_docs import build
    from lakeward.quality.results.records import recorded
    from lakeward.registry import verifications

    context = state()
    with context.registry() as connection:
        chosen = list(dict.fromkeys(tables or verifications.tables(connection)))
        rows = {name: verifications.newest(connection, name, limit=last) for name in chosen}
        runs = {
            name: [recorded(row, verifications.checks_of(connection, row["run"])) for row in rows_of]
            for name, rows_of in rows.items()
        }
    missing = [name for name in chosen if not runs[name]]
    if missing or not chosen:
        raise LakewardError(
            f"Cannot build Data Docs: no check run of {', '.join(missing) or 'any table'} is recorded",
            next=f"lakeward quality run {word(missing[0]) if missing else 'TABLE'}",
            code="LW-1206",
        )
    index = build(runs, (to or context.runtime.data_docs).absolute(), last)
    total = sum(map(len, runs.values()))
    data = {"index": str(index), "tables": {name: len(rows_of) for name, rows_of in runs.items()}}
    context.output.either(
        data,
        f"{index}\n  {count(total, 'run')} of {count(len(runs), 'table')}   open the file in a browser on this machine",
    )
