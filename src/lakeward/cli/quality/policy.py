"""Applies a suite's `on_fail: quarantine` from the command line, for a person and for the Dag's task."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.operations.quarantine.policy import Policy
    from lakeward.quality.results.records import RunDocument


def policy_of(table: str) -> Policy:
    """The quarantine policy of a table's suite, with its dependencies."""
    from lakeward.cli.quality.suites import suite_of
    from lakeward.cli.quality.text import event_text
    from lakeward.engine import analysis
    from lakeward.operations.quarantine.policy import Policy
    from lakeward.platform.runtime import registry_url

    here = state()
    runtime = here.runtime
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    return Policy(
        suite_of(table), here.registry, registry_url(here.home), runtime, here.project,
        opens=lambda streams: analysis.session([stream.spec for stream in streams], runtime, lake=True),
        emit=lambda level, text, fields: here.output.note(event_text(text, fields)),
    )  # fmt: skip


def carried_out(table: str) -> None:
    """Apply the policy to the table's newest run. Exit code 3 if the table stays held."""
    policy = policy_of(table)
    show_outcome(policy.carry_out(), policy)


def show_outcome(result: RunDocument | None, policy: Policy) -> None:
    """Print a run, with the rows that were moved to quarantine.

    Raises:
        LakewardError: the table has no check run.
        typer.Exit: 3, the verdict is `hold` or `error`.
    """
    from lakeward.cli.quality.text import run_text

    if result is None:
        raise LakewardError(
            f"{policy.table} has no check run", next=f"lakeward quality run {policy.table}", code="LW-1208"
        )
    document = {**result, "quarantined": [asdict(report) for report in policy.reports]}
    state().output.either(document, run_text(result))
    if result["verdict"] in ("hold", "error"):
        raise typer.Exit(3)
