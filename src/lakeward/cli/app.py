"""The `lakeward` command: nouns and verbs of the contract, one file per noun.

Exit codes: 0 ok, 1 unexpected, 2 usage or specification, 3 unhealthy or a check failed, 4 refused, 5 timed out.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from lakeward import __version__
from lakeward.cli import (
    config,
    context,
    demo,
    deploy,
    doctor,
    examples,
    init,
    lineage,
    metrics,
    quality,
    sql,
    stack,
    streams,
    tables,
)
from lakeward.platform.errors import Internal, LakewardError
from lakeward.telemetry import logs

EPILOG = (
    "Everywhere: -o table|json, --project DIR (or LAKEWARD_PROJECT; default: here), --home DIR (or LAKEWARD_HOME; "
    "default: .lakeward in the project). LAKEWARD_REGISTRY_URL_FILE names a registry other than the embedded one."
)

WHAT_IT_IS = (
    "Lakeward starts Spark Structured Streaming jobs that land Kafka records and files in Iceberg and Delta tables, "
    "restarts them when they fail, compacts the tables, and checks the landed rows. "
    "Apache Airflow schedules this and shows it."
)

app = typer.Typer(
    name="lakeward",
    help=WHAT_IT_IS,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


app.command()(init.init)
app.add_typer(stack.app, name="stack")
app.command()(doctor.doctor)
app.add_typer(config.app, name="config")
app.command()(deploy.deploy)
app.command()(demo.demo)
app.add_typer(streams.app, name="streams")
app.add_typer(tables.app, name="tables")
app.add_typer(quality.app, name="quality")
app.add_typer(lineage.app, name="lineage")
app.add_typer(metrics.app, name="metrics")
app.command()(sql.sql)


def _version(requested: bool) -> None:
    if requested:
        version()
        raise typer.Exit


@app.callback(help=WHAT_IT_IS)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options of the command itself; its help is `WHAT_IT_IS`."""


@app.command()
def version() -> None:
    """Print the version."""
    context.state().output.show({"version": __version__})


examples.complete_help(app)


@cache
def command_tree() -> Any:
    """The tree of all commands; Typer would build it again for each call in a process."""
    return get_command(app)


def main(argv: list[str] | None = None) -> None:
    """Entry point: the only place where an expected error becomes three lines and an exit code."""
    rest = context.take_common_options(sys.argv[1:] if argv is None else argv)
    logs.to_stderr()  # structlog's own default is stdout, which is for data only
    try:
        command_tree()(rest)
    except Internal:  # a bug: its stack trace says where
        raise
    except LakewardError as error:
        context.state().output.error(error)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        context.state().output.note("stopped by you")
        raise SystemExit(130) from None
