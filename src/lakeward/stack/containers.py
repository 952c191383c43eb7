"""The stack's parts in containers: what docker-compose.yml runs.

`prepare` does once what `lakeward stack up` does before parts start: folders, configuration, roles, databases,
migrations. `run PART` becomes the program of a part, with the environment that it has in an embedded stack. `healthy
PART` is its health check.

All of Lakeward's services share one network and one process namespace, as the containers of a Kubernetes pod: a token
crosses no network (gRPC sends it to localhost only), and every part sees the processes of the drivers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lakeward import jars
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.private import update
from lakeward.platform.runtime import Home, Project
from lakeward.registry import engine
from lakeward.stack import airflow_config, airflow_parts, airflow_pool, container_secrets, groups
from lakeward.stack.part import Part
from lakeward.stack.services import ConnectPart, PostgresPart
from lakeward.stack.site import StackContext

PORTS = {"postgres": 5432, "kafka": 9092, "kafka-controller": 9093, "airflow": 8080, "connect": 15002}
HOSTS = {"postgres": "postgres", "kafka": "kafka"}
"""Services with a network of their own, by their names in docker-compose.yml."""
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of the container; docker-compose.yml publishes it on loopback
RECENT = timedelta(minutes=2)
"""A part whose newest heartbeat is older is not healthy."""
DATABASE_WAIT_S = 120.0
OWN = {part.name: part for part in groups.PARTS if part.group not in HOSTS}
"""The parts that are Lakeward's containers; the others are images of their projects."""


def site() -> StackContext:
    """The context of this container, by `LAKEWARD_PROJECT` and `LAKEWARD_HOME`."""
    project = Project.locate()
    return StackContext(project, Home.locate(project=project), PORTS, jars.find_java(), HOSTS, EVERY_ADDRESS)


def prepare(here: StackContext) -> None:
    """Write what the parts read, and bring databases and roles up to this version. Safe to repeat.

    Raises:
        LakewardError: a secret is missing, or PostgreSQL does not answer.
    """
    found = container_secrets.adopt(container_secrets.MOUNTED, here.home.secrets)
    missing = sorted(set(container_secrets.FILES) - set(found))
    if missing:
        raise SpecError(
            "Secrets of the composed stack are missing",
            why=f"{container_secrets.MOUNTED} has no {', '.join(missing)}",
            next="on the host, in the folder of docker-compose.yml: lakeward init --compose",
            code="LW-2544",
        )
    here.write()
    airflow_config.write(here)
    _cluster_secrets(here)
    administrator = here.home.secrets / "postgres.password"
    try:
        databases = PostgresPart(here)
        databases.server.wait(administrator.read_text().strip(), DATABASE_WAIT_S)
        databases.populate()
    finally:
        administrator.unlink()  # no other part needs it, and all of Airflow's read this folder
    engine.migrate(here.home.registry_url_file.read_text().strip(), here.home.pgpass)
    airflow_parts.migrate(here)
    _pools(here)


def _cluster_secrets(here: StackContext) -> None:
    """Give each driver that authenticates to the cluster of docker-compose.yml its secret."""
    for name, driver in here.settings.drivers.items():
        if driver.authenticate:
            update(here.home.secrets / "spark" / f"{name}.secret", here.secret("spark.secret") + "\n")


def _pools(here: StackContext) -> None:
    """Reserve a slot for supervision, as `airflow_pool` does through the API, which does not run yet."""
    known = {pool["pool"]: int(pool["slots"]) for pool in json.loads(_pools_command(here, "list", "--output", "json"))}
    if airflow_pool.NAME not in known:
        _pools_command(here, "set", airflow_pool.NAME, "1", "streams_reconcile")
    if known.get(airflow_pool.DEFAULT) == airflow_pool.UNTOUCHED:
        _pools_command(here, "set", airflow_pool.DEFAULT, str(airflow_config.PARALLELISM - 1), "Default pool")


def _pools_command(here: StackContext, *arguments: str) -> str:
    command = [airflow_parts.airflow_binary(), "pools", *arguments]
    done = subprocess.run(
        command, env=airflow_parts.environment(here), capture_output=True, text=True, cwd="/", check=False
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise LakewardError(
            "The pools of Airflow could not be set",
            why=" | ".join(lines[-3:]) or f"{' '.join(command)} ended with {done.returncode}",
            next="docker compose up   tries again",
            code="LW-2545",
        )
    return done.stdout


def become(part: Part) -> None:
    """Replace this process by the program of a part."""
    if isinstance(part, ConnectPart):
        # A holder of the token can read what this container reads: it has no other secrets.
        container_secrets.adopt(container_secrets.MOUNTED, part.site.home.secrets)
        part.site.write_catalog_login()
    part.prepare()
    program = part.program()
    os.chdir(program.folder)
    os.execve(program.command[0], program.command, program.environment)  # noqa: S606 - a list, no shell


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    acts: dict[str, Callable[[Part], object]] = {
        "run": become,
        "healthy": lambda part: part.healthy(datetime.now(UTC) - RECENT),
    }
    try:
        if arguments == ["prepare"]:
            prepare(site())
            return 0
        if len(arguments) != 2 or arguments[0] not in acts or arguments[1] not in OWN:
            raise SpecError(
                f"Not a step of a container: {' '.join(arguments) or 'nothing'}",
                why=f"the steps are prepare, run PART, healthy PART; the parts are {', '.join(OWN)}",
                next="correct the command of the service in docker-compose.yml",
                code="LW-2546",
            )
        return 0 if acts[arguments[0]](OWN[arguments[1]](site())) else 1
    except LakewardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
