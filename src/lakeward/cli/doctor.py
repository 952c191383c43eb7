"""`lakeward doctor`: what is missing here, and the exact next command."""

from __future__ import annotations

from dataclasses import asdict

import typer

from lakeward.cli.context import state
from lakeward.errors import Unhealthy


def doctor() -> None:
    """Check this machine and this stack; each line that is not ok names the command that repairs it."""
    from lakeward.stack.doctor import examine

    checks = examine(state().project, state().home)
    wrong = [check for check in checks if not check.ok]
    state().output.show(
        {"checks": [asdict(check) for check in checks]}, rows="checks", columns=["name", "ok", "found", "wanted"]
    )
    for check in checks:
        if check.next and not check.ok:
            state().output.note(f"{check.name}: {check.next}")
    if wrong:
        raise typer.Exit(Unhealthy.exit_code)
