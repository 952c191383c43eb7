"""The command group `lakeward tables`, and the arguments its commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.table_names import plain

app = typer.Typer(
    help="Health and maintenance of the lake's tables: plan, maintain, hold, restore, erase.", no_args_is_help=True
)

Table = Annotated[str, typer.Argument(callback=plain, metavar="TABLE", help="namespace.table")]
Comment = Annotated[str, typer.Option(help="Reason; recorded with the change.")]
Optional = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", callback=plain, help="namespace.table; every table by default.")
]
