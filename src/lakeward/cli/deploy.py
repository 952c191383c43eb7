"""`lakeward deploy`: the only way a spec enters the registry."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import Unhealthy

if TYPE_CHECKING:
    from lakeward.spec.model.stream import StreamSpec


def deploy(
    plan: Annotated[bool, typer.Option("--plan", help="Show the changes; change nothing.")] = False,
    retire: Annotated[
        list[str] | None,
        typer.Option("--retire", help="A stream whose file was removed: stop and retire it. Repeatable."),
    ] = None,
) -> None:
    """Register new and changed streams. Running streams are not restarted; a changed one shows `upgrade pending`."""
    from lakeward.cli.masters import probe_masters
    from lakeward.registry import deploy as registry_deploy
    from lakeward.spec.read.loader import load_project
    from lakeward.spec.read.problems import raise_if_any

    loaded = load_project(state().project, state().kafka, state().durations)
    raise_if_any(loaded.problems, next="lakeward config validate, then deploy again")
    specs = {name: stream.spec for name, stream in loaded.streams.items()}
    if not plan:
        _install(specs)
    with state().registry() as connection:
        if plan:
            known = registry_deploy.accepted(connection)
            changes = registry_deploy.preview(connection, specs, retire or ())
        else:
            changes = registry_deploy.deploy(connection, specs, author=author(), retire=retire or ())
    data = {"changes": [change.document() for change in changes]}
    if plan:
        concerned = _readers({name: accepted.spec for name, accepted in known.items()}, specs)
        for entry in data["changes"]:
            entry["readers"] = concerned.get(entry["stream"], [])
            entry["why"] = "; ".join([entry["why"], *entry["readers"]])
        grown = _tables(specs, [change.stream for change in changes if change.change == "changed"])
        for entry in data["changes"]:
            entry["table_changes"] = grown.get(entry["stream"], [])
            if entry["table_changes"]:
                entry["why"] += f"; in its table: {', '.join(entry['table_changes'])}"
    columns = ["stream", "change", "generation", "checkpoint_compatible", "why"]
    state().output.show(data, rows="changes", columns=columns)
    for problem in loaded.problems:
        if problem.path.endswith("kafka.connection"):
            state().output.note(problem.text())
    named = {str(spec.driver) for spec in specs.values()}
    for _, who, error in probe_masters(loaded.settings, state().home.secrets, named):
        if error is not None:
            state().output.note(f"{error.what}; {who} will wait for it: {error.why}; {error.next}")
    if plan:
        state().output.note("nothing was changed; run without --plan to apply this")


def _install(specs: Mapping[str, StreamSpec]) -> None:
    """Install the packages of the streams' Python code, so that a missing one is reported now, not at a start."""
    from lakeward.connectors.python import packages

    by_stream = {name: spec.packages for name, spec in specs.items() if spec.packages}
    if not by_stream:
        return
    try:
        places = state().runtime.environments
    except Unhealthy:  # drivers run on another machine, which installs them at the start
        return
    for name, lines in by_stream.items():
        packages.install(name, lines, places)


def _readers(accepted: Mapping[str, Mapping[str, Any]], specs: Mapping[str, StreamSpec]) -> dict[str, list[str]]:
    """Stream -> effects of its change on the streams that read its table."""
    from pydantic import ValidationError

    from lakeward.spec.deploy.upgrade_order import order
    from lakeward.spec.model.stream import StreamSpec

    before = {}
    for name, document in accepted.items():
        with suppress(ValidationError):  # written by another version of Lakeward: the plan reports it
            before[name] = StreamSpec.model_validate(dict(document))
    return order(before, specs)


def _tables(specs: Mapping[str, StreamSpec], changed: list[str]) -> dict[str, list[str] | None]:
    """Stream -> column changes of its table by its new generation; None if unknown without a stack. Uses Spark if a
    stream may change its table."""
    from lakeward.engine import analysis
    from lakeward.operations import sink_position

    evolving = [
        specs[name] for name in changed if specs[name].schema_.evolution == "additive" and specs[name].sink.table
    ]
    try:
        runtime = state().runtime
    except Unhealthy:
        return {str(spec.id): None for spec in evolving}
    known = [(spec, has) for spec in evolving if (has := sink_position.columns(runtime, spec)) is not None]
    if not known:
        return {}
    with analysis.session([spec for spec, _ in known], runtime) as spark:
        return {str(spec.id): analysis.table_changes(spark, spec, has, runtime) for spec, has in known}


def author() -> str:
    """The author of changes: `LAKEWARD_AUTHOR` (CI sets it), else the user of the operating system."""
    try:
        return os.environ.get("LAKEWARD_AUTHOR") or getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id that has no name
        return f"uid {os.getuid()}"
