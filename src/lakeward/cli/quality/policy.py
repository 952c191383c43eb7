"""What a suite's `on_fail: quarantine` says, done from the command line: by hand and by the Dag's task."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.operations.quarantine.policy import Policy


def policy_of(table: str) -> Policy:
    """The policy of a table's suite, with what it acts by."""
    from lakeward.cli.quality.suites import suite_of
    from lakeward.engine import analysis
    from lakeward.operations.quarantine.policy import Policy
    from lakeward.platform.runtime import registry_url

    here = state()
    runtime = here.runtime
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    return Policy(
        suite_of(table), here.registry, registry_url(here.home), runtime, here.project,
        opens=lambda streams: analysis.session([each.spec for each in streams], runtime, lake=True),
        tell=lambda level, text, fields: here.output.note(text),
    )  # fmt: skip


def carried_out(table: str) -> None:
    """Do what the policy says of the table's newest run; exit code 3 where it stays held."""
    policy = policy_of(table)
    result = policy.carry_out()
    if not result:
        raise LakewardError(f"{table} was never checked", next=f"lakeward quality run {table}", code="LW-1208")
    told(result, policy)


def told(result: dict[str, Any], policy: Policy) -> None:
    """Print a run, with what was moved for it.

    Raises:
        typer.Exit: 3, it holds the table or is an error.
    """
    from lakeward.cli.quality.text import run_text

    document = {**result, "quarantined": [asdict(each) for each in policy.reports]}
    state().output.either(document, run_text(result))
    if result["verdict"] in ("hold", "error"):
        raise typer.Exit(3)
