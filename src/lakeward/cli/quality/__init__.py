"""`lakeward quality`: one file for each group of related commands."""

# isort: off  (the order of `--help`)
from lakeward.cli.quality import docs, history, profile, quarantine, replay, runs, status, suites, waivers

# isort: on
from lakeward.cli.quality.group import app

__all__ = ["app", "docs", "history", "profile", "quarantine", "replay", "runs", "status", "suites", "waivers"]
