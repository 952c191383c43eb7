"""`lakeward stack`: start, show and stop the services of a lakehouse on one machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import absent

if TYPE_CHECKING:
    from lakeward.stack.stack import Stack

DRIVER_GRACE_S = 60.0  # for the batch a driver is in

app = typer.Typer(
    no_args_is_help=True, help="Start, show and stop PostgreSQL, Kafka, Airflow and Spark on this machine."
)


@app.command()
def up(
    only: Annotated[
        str | None,
        typer.Option("--only", help="Some parts: postgres,kafka,connect,airflow,checker (and what they need)."),
    ] = None,
    no_deploy: Annotated[bool, typer.Option("--no-deploy", help="Do not deploy the project's specs.")] = False,
) -> None:
    """Start every part that does not run, deploy the project's specs, and print where everything is. Safe to repeat."""
    services = [word.strip() for word in only.split(",") if word.strip()] if only is not None else None
    output = state().output
    report = stack().up(services, None if no_deploy else deploy, output.note)
    output.show(report)
    if "airflow" in report:
        output.note(f"Airflow: {report['airflow']['url']}  user {report['airflow']['user']}")
    if not absent(state().project.streams):
        _supervised()


@app.command()
def use(
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            help="The PostgreSQL database of the registry: postgresql://USER@HOST:PORT/DATABASE. Default: as recorded.",
        ),
    ] = None,
    passwords: Annotated[
        Path | None,
        typer.Option("--passwords", help="Password file of PostgreSQL. Default: PGPASSFILE, or ~/.pgpass."),
    ] = None,
) -> None:
    """Use the PostgreSQL, catalog and Airflow that you have: write their addresses to the home. Starts nothing."""
    from lakeward.stack import external

    output, here = state().output, stack()
    recorded = here.external if registry is None else external.registry(registry)
    if recorded is None:
        raise external.not_named(here.home)
    output.show(here.use(recorded, passwords, output.note))
    output.note("next: lakeward doctor   (the catalog), then lakeward deploy")
    output.note("for checks and maintenance: lakeward stack up   starts the Spark Connect server and the checker here")


def _supervised() -> None:
    """Say that nothing will supervise the streams, if so: no first pass has to be waited for to know it."""
    from lakeward.stack.supervised import cause

    found = cause(state().project, state().home, probe=False)
    if found is not None:
        state().output.note(
            f"not supervised: {found.why}: nothing launches, watches or restarts the streams; next: {found.next}"
        )


@app.command()
def status() -> None:
    """Show every part: state, process, memory, log."""
    parts = stack().status()
    columns = ["name", "state", "pid", "since", "pss_bytes", "log"]
    state().output.show({"parts": [asdict(part) for part in parts]}, rows="parts", columns=columns)
    missing = [part for part in parts if part.state != "up"]
    if missing:
        words = "starts what is down; streams that run continue"
        logs = ", ".join(str(part.log) for part in missing if part.state == "failed")
        state().output.note(f"next: lakeward stack up   ({words}{f'; why it failed: {logs}' if logs else ''})")
        raise typer.Exit(Unhealthy.exit_code)


@app.command()
def down(
    keep_drivers: Annotated[
        bool, typer.Option("--keep-drivers", help="Leave the drivers running; they wait for PostgreSQL and Kafka.")
    ] = False,
) -> None:
    """Stop streams at a batch boundary, then every part, and prove that no process is left."""
    output, known = state().output, stack().known
    seconds = stack().down(None if keep_drivers else stop_drivers, output.note)
    if seconds:
        output.show({"stopped": True, "timings_s": seconds})
        return
    home = state().home.root
    why = f"the stack in {home} does not run" if known else f"no stack is known in {home}; name another: --home DIR"
    output.show({"stopped": False, "why": why, "timings_s": seconds})


def stack() -> Stack:
    """The stack of this invocation."""
    from lakeward.stack.stack import Stack

    return Stack(state().project, state().home)


def deploy() -> None:
    """Deploy the project's specs to the registry; a project may have no streams."""
    from lakeward.cli.deploy import author
    from lakeward.registry import deploy as registry_deploy
    from lakeward.registry.engine import connect
    from lakeward.spec.read.loader import load_project
    from lakeward.spec.read.problems import raise_if_any

    if absent(state().project.streams):
        state().output.note(f"nothing to deploy: {state().project.streams} does not exist")
        return
    loaded = load_project(state().project)
    raise_if_any(loaded.problems, next="lakeward config validate, then lakeward deploy   (the stack itself is up)")
    specs = {name: stream.spec for name, stream in loaded.streams.items()}
    home = state().home
    with connect(home.registry_url_file.read_text().strip(), pgpass=home.pgpass) as connection:
        changes = registry_deploy.deploy(connection, specs, author=author(), retire=())
    for change in changes:
        facts = change.document()
        state().output.note(f"  {facts['stream']}: {facts['change']}")


def stop_drivers() -> None:
    """Ask every driver of this home to end after its batch, in parallel; one that does not end is killed.

    The desired state of the streams is unchanged: after the next `stack up` they run again.
    """
    from lakeward.supervision.backends.base import Job, Life
    from lakeward.supervision.backends.local import LocalBackend

    backend = LocalBackend(state().home.drivers)
    jobs = [job for job in backend.find() if job.life in {Life.ALIVE, Life.REMNANT}]

    def stop(job: Job) -> Job | None:
        return None if backend.stop(job, grace_s=DRIVER_GRACE_S) else job

    if not jobs:
        return
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        remaining = [job for job in pool.map(stop, jobs) if job is not None]
    if remaining:
        raise Unhealthy(
            "Cannot stop a driver",
            why="its process still runs: " + ", ".join(f"{job.driver} ({job.log})" for job in remaining),
            next="kill the process by hand, then: lakeward stack down",
            code="LW-1223",
        )
