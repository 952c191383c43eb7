"""The command group `lakeward streams`, and the arguments its commands share."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="List, start and stop streams; audit what they landed.", no_args_is_help=True)

Stream = Annotated[str, typer.Argument(help="the stream's id", metavar="STREAM")]
OptionalStream = Annotated[str | None, typer.Argument(help="the stream's id; or --tag for many", metavar="[STREAM]")]
Tag = Annotated[str | None, typer.Option(help="all streams with this tag")]
MaxParallel = Annotated[int, typer.Option(min=1, help="with --tag: how many at the same time")]
Lines = Annotated[int, typer.Option("--lines", "-n", min=1, help="how many")]
