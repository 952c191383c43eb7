"""`lakeward tables`: one file for each group of related commands."""

# isort: off  (the order of `--help`)
from lakeward.cli.tables import erase, maintenance, restore

# isort: on
from lakeward.cli.tables.group import app

__all__ = ["app", "erase", "maintenance", "restore"]
