"""Why the streams are not supervised: what is missing between the stack, the project's dags/ and Airflow.

Asked only when no reconcile pass succeeds; each cause has the command that ends it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from lakeward.platform.runtime import Home, Project
from lakeward.stack import airflow_config
from lakeward.stack.external import ExternalServices
from lakeward.stack.site import StackContext
from lakeward.stack.stack import Stack
from lakeward.stack.state import StackState

DAG = "streams_reconcile"
_MADE_BY = re.compile(r"reconcile_dag|lakeward\.airflow\.dags\b[\s\S]*\b(?:streams|dags)\(\)")
"""What a Dag file has that makes it: the module of the Dag, or a call of `lakeward.airflow.dags` that gives it."""

EXTERNAL_NEXT = (
    f"open the Dag {DAG} in your Airflow: does it exist, is it paused, does its task fail? "
    "(docs/how-to/add-to-an-airflow.md)"
)


@dataclass(frozen=True)
class Cause:
    """Why the streams are not supervised, as a clause, and the command that ends it."""

    why: str
    next: str


def cause(project: Project, home: Home, *, probe: bool = True) -> Cause | None:
    """The cause; None if none is known: no stack on this machine, or all seems well.

    Args:
        probe: whether Airflow is probed too.
    """
    state = StackState.load(home)
    if state == StackState() or airflow_is_external(home):
        return None  # the registry belongs to a stack elsewhere, or the Airflow of another platform supervises
    if not state.running:
        return Cause("the stack does not run", "lakeward stack up")
    if "airflow" not in state.parts:
        return Cause("the stack runs without Airflow", "lakeward stack up")
    if not loads(project):
        why = f"no file in {project.dags} makes the Dag {DAG}"
        return Cause(why, f"lakeward init --dags {shlex.quote(str(project.root))}")
    return _of_airflow(Stack(project, home).site(state)) if probe else None


def airflow_is_external(home: Home) -> bool:
    """Whether the Airflow that supervises is none of this home's parts."""
    return ExternalServices.load(home) is not None


def loads(project: Project) -> bool:
    """Whether a file of the project's dags/ makes the Dag that supervises."""
    try:
        files = list(project.dags.rglob("*.py"))
        return any(_MADE_BY.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)
    except OSError:
        return False


def _of_airflow(site: StackContext) -> Cause | None:
    try:
        with client(site) as airflow:
            answer = airflow.get(f"/api/v2/dags/{DAG}")
            if answer.status_code == httpx.codes.NOT_FOUND:
                return _broken(airflow.get("/api/v2/importErrors").raise_for_status().json())
            dag = answer.raise_for_status().json()
            runs = airflow.get(f"/api/v2/dags/{DAG}/dagRuns", params={"order_by": "-run_after", "limit": 1})
            newest = runs.raise_for_status().json()["dag_runs"]
    except httpx.HTTPError as error:
        return Cause(f"Airflow's API does not answer: {error}", "lakeward stack status")
    return judge(dag, newest[0] if newest else None, site)


def judge(dag: dict[str, Any], run: dict[str, Any] | None, site: StackContext) -> Cause | None:
    """The cause by the Dag and its newest run, as Airflow's API gives them."""
    if dag.get("is_paused"):
        return Cause(f"the Dag {DAG} is paused", unpause(site, DAG))
    if dag.get("has_import_errors"):
        return Cause(f"Airflow cannot read the file of the Dag {DAG} any more", f"open {site.airflow}/dags/{DAG}")
    if run is not None and run.get("state") == "failed":
        link = f"{site.airflow}/dags/{DAG}/runs/{run.get('dag_run_id')}"
        return Cause(f"the newest run of {DAG} failed: {link}", "lakeward stack status")
    return None


def _broken(answer: dict[str, Any]) -> Cause:
    errors = [error for error in answer.get("import_errors", []) if error.get("filename")]
    if not errors:
        return Cause(f"Airflow has not read the Dag {DAG} yet", "lakeward stack status")
    lines = str(errors[0].get("stack_trace") or "").strip().splitlines() or ["no text"]
    file = errors[0]["filename"]
    return Cause(f"Airflow cannot read {file}: {lines[-1]}", f"correct {file}; Airflow reads it again by itself")


def unpause(site: StackContext, dag: str) -> str:
    """The command that unpauses a Dag of this stack."""
    return f"AIRFLOW_HOME={site.airflow_home} PGPASSFILE={site.home.pgpass} airflow dags unpause {dag}"


@contextmanager
def client(site: StackContext, timeout_s: float = 10) -> Iterator[httpx.Client]:
    """A client of Airflow's API, logged in.

    Raises:
        httpx.HTTPError: Airflow does not answer, or refuses the login.
    """
    password = site.secret("airflow.password")
    with httpx.Client(base_url=site.airflow, timeout=timeout_s, trust_env=False) as opened:
        login = opened.post("/auth/token", json={"username": airflow_config.ADMIN, "password": password})
        login.raise_for_status()
        opened.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
        yield opened
