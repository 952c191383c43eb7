"""Airflow's four processes, started separately: `airflow standalone` restarts nothing and leaves orphaned processes."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

from lakeward.platform import ports
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import SUPERVISION_POOL
from lakeward.stack import airflow_pool, service_user
from lakeward.stack.part import Part
from lakeward.stack.program import Program
from lakeward.stack.site import StackContext


class AirflowPart(Part):
    """One Airflow process."""

    group = "airflow"
    arguments: ClassVar[tuple[str, ...]]
    stop_wait_s: ClassVar[int] = 25
    health: ClassVar[tuple[str, str]]  # the component and its heartbeat in /api/v2/monitor/health

    def program(self) -> Program:
        return Program([airflow_binary(), *self.arguments], environment(self.site), stop_wait_s=self.stop_wait_s)

    def healthy(self, since: datetime) -> bool:
        component, beat = self.health
        facts = monitor(self.site).get(component) or {}
        if facts.get("status") != "healthy" or not facts.get(beat):
            return False
        # Just after a restart the status is still that of the dead process: only a newer heartbeat counts.
        return datetime.fromisoformat(facts[beat]).astimezone(UTC) > since


class ApiServer(AirflowPart):
    """API server and web UI."""

    name = "airflow-api-server"
    listens = "airflow"
    arguments = ("api-server",)
    health = ("metadatabase", "")
    # It has no state, and after an outage of its database it sometimes hangs at shutdown.
    stop_wait_s = 8

    def healthy(self, since: datetime) -> bool:
        return (monitor(self.site).get("metadatabase") or {}).get("status") == "healthy"


class Scheduler(AirflowPart):
    """The scheduler with its local executor."""

    name = "airflow-scheduler"
    arguments = ("scheduler", "--skip-serve-logs")
    health = ("scheduler", "latest_scheduler_heartbeat")


class DagProcessor(AirflowPart):
    """The parser of Dag files."""

    name = "airflow-dag-processor"
    arguments = ("dag-processor",)
    health = ("dag_processor", "latest_dag_processor_heartbeat")


class Triggerer(AirflowPart):
    """Triggerer, which runs the stream watcher."""

    name = "airflow-triggerer"
    arguments = ("triggerer", "--skip-serve-logs")
    health = ("triggerer", "latest_triggerer_heartbeat")


def environment(site: StackContext) -> dict[str, str]:
    """The environment of Airflow's processes and tasks."""
    # The triggerer sends lineage where OpenLineage is configured, by that project's own variables.
    lineage = {name: value for name, value in os.environ.items() if name.startswith("OPENLINEAGE_")}
    return site.environment(
        AIRFLOW_HOME=str(site.airflow_home),
        **lineage,
        **{SUPERVISION_POOL: airflow_pool.NAME},
        OBJC_DISABLE_INITIALIZE_FORK_SAFETY="YES",  # otherwise macOS kills forked workers
    )


def monitor(site: StackContext) -> dict[str, Any]:
    """Airflow's health report; empty if the API does not answer."""
    # http.client, because four parts poll several times a second, and httpx sets up TLS for each client.
    link = http.client.HTTPConnection(ports.HOST, site.ports["airflow"], timeout=5)
    try:
        link.request("GET", "/api/v2/monitor/health")
        answer = link.getresponse()
        body = answer.read()
        facts: dict[str, Any] = json.loads(body) if answer.status == HTTPStatus.OK else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        link.close()
    return facts


def migrate(site: StackContext) -> None:
    """Migrate Airflow's database to the installed version. A killed one is repeated: Airflow's lock is PostgreSQL's.

    Raises:
        LakewardError: `airflow db migrate` failed; its output is in a log.
    """
    log = site.home.logs / "airflow-db-migrate.log"
    with log.open("wb") as sink:
        done = subprocess.run(
            service_user.bound([airflow_binary(), "db", "migrate"]),
            env=environment(site), stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, cwd="/", check=False,
        )  # fmt: skip
    if done.returncode != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise LakewardError(
            "Airflow's database could not be migrated",
            why=" | ".join(lines[-3:]) or f"airflow db migrate ended with {done.returncode}",
            next=f"less {log}, then: lakeward stack up   (it begins the migration again)",
            code="LW-7001",
        )


def airflow_binary() -> str:
    """The `airflow` program of this environment.

    Raises:
        LakewardError: it is not installed.
    """
    program = Path(sys.executable).parent / "airflow"
    if not program.exists():
        raise LakewardError(
            "Airflow is not installed here", why=f"no {program}", next="uv sync --extra airflow", code="LW-7002"
        )
    return str(program)
