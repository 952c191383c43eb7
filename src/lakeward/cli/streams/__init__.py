"""`lakeward streams`: one file for commands that belong together."""

# isort: off  (the order of `--help`)
from lakeward.cli.streams import backfill, history, operations, preview, rebuild, show, state

# isort: on
from lakeward.cli.streams.group import app

__all__ = ["app", "backfill", "history", "operations", "preview", "rebuild", "show", "state"]
