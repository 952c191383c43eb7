"""`lakeward deploy`: the only way a spec enters the registry."""

from __future__ import annotations

import getpass
import os
from typing import Annotated

import typer

from lakeward.cli.context import state


def deploy(
    plan: Annotated[bool, typer.Option("--plan", help="Say what would happen; touch nothing.")] = False,
    retire: Annotated[
        list[str] | None, typer.Option("--retire", help="A stream whose file is gone: stop and forget it. Repeatable.")
    ] = None,
) -> None:
    """Make the project's streams known. What runs is not touched: a changed stream shows `upgrade pending`."""
    from lakeward.registry import deploy as registry_deploy
    from lakeward.spec.loader import load_project
    from lakeward.spec.problems import raise_if_any

    loaded = load_project(state().project, state().kafka)
    raise_if_any(loaded.problems, next="lakeward config validate, then deploy again")
    specs = {name: stream.spec for name, stream in loaded.streams.items()}
    with state().registry() as connection:
        if plan:
            changes = registry_deploy.preview(connection, specs, retire or ())
        else:
            changes = registry_deploy.deploy(connection, specs, author=author(), retire=retire or ())
    data = {"changes": [change.document() for change in changes]}
    columns = ["stream", "change", "generation", "checkpoint_compatible", "why"]
    state().output.show(data, rows="changes", columns=columns)
    for problem in loaded.problems:
        if problem.path.endswith("kafka.connection"):
            state().output.note(problem.text())
    if plan:
        state().output.note("nothing was touched; without --plan this is done")


def author() -> str:
    """Who changes something, for the record: `LAKEWARD_AUTHOR` (CI sets it), else the user of the operating system."""
    try:
        return os.environ.get("LAKEWARD_AUTHOR") or getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id that has no name
        return f"uid {os.getuid()}"
