"""`quality docs`: Great Expectations' Data Docs of the newest check runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.platform.errors import LakewardError


@app.command()
def docs(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="namespace.table; every table that was checked.")
    ] = None,
    last: Annotated[int, typer.Option("-n", min=1, max=200, help="Runs of each table, newest first.")] = 20,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Folder; data-docs in the home.")] = None,
) -> None:
    """Write Data Docs as pages to open in a browser: what the newest runs of each table found, with their examples.

    Made from the results in the registry, whole and anew each time. Nothing is checked, nothing loaded from elsewhere.
    """
    from lakeward.platform.text import count as told
    from lakeward.quality.results.data_docs import build
    from lakeward.quality.results.records import recorded
    from lakeward.registry import verifications

    here = state()
    with here.registry() as connection:
        chosen = list(dict.fromkeys(tables or verifications.tables(connection)))
        rows = {name: verifications.newest(connection, name, limit=last) for name in chosen}
        runs = {
            name: [recorded(row, verifications.checks_of(connection, row["run"])) for row in each]
            for name, each in rows.items()
        }
    missing = [name for name in chosen if not runs[name]]
    if missing or not chosen:
        raise LakewardError(
            f"No check run of {', '.join(missing) or 'any table'} is recorded",
            next=f"lakeward quality run {missing[0] if missing else 'TABLE'}",
            code="LW-1206",
        )
    index = build(runs, (to or here.runtime.data_docs).absolute(), last)
    total = sum(map(len, runs.values()))
    data = {"index": str(index), "tables": {name: len(each) for name, each in runs.items()}}
    here.output.either(
        data, f"{index}\n  {told(total, 'run')} of {told(len(runs), 'table')}   open it in a browser of this machine"
    )
