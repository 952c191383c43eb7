"""`lakeward tables`: one file for commands that belong together."""

# isort: off  (the order of `--help`)
from lakeward.cli.tables import erase, maintenance, restore

# isort: on
from lakeward.cli.tables.group import app

__all__ = ["app", "erase", "maintenance", "restore"]
