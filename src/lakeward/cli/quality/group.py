"""The command group `lakeward quality`, and the arguments its commands share."""

from __future__ import annotations

import typer

app = typer.Typer(help="Check landed rows with Great Expectations; show up to which snapshot tables are verified.",
                  no_args_is_help=True)  # fmt: skip
