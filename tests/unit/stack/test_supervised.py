"""Why nobody supervises the streams, and the command that ends it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from lakeward.cli.init import add_dags
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Home, Project
from lakeward.stack import supervised
from lakeward.stack.state import StackState

SITE: Any = SimpleNamespace(
    airflow="http://127.0.0.1:8080",
    airflow_home=Path("/h/airflow"),
    home=SimpleNamespace(pgpass=Path("/h/pgpass")),
    secret=lambda name: "s",
)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Project, Home]:
    return Project(tmp_path / "project"), Home(tmp_path / "home")


def stack(monkeypatch: pytest.MonkeyPatch, *, running: bool = True, parts: tuple[str, ...] = ("airflow",)) -> None:
    state = SimpleNamespace(running=running, parts=list(parts))
    monkeypatch.setattr(StackState, "load", lambda home: state)


def test_a_home_without_a_stack_says_nothing_about_a_registry_elsewhere(places) -> None:
    assert supervised.cause(*places) is None


def test_a_stack_that_is_down_or_has_no_airflow_is_the_cause(places, monkeypatch) -> None:
    stack(monkeypatch, running=False)
    assert supervised.cause(*places) == supervised.Cause("the stack does not run", "lakeward stack up")
    stack(monkeypatch, parts=("postgres", "kafka"))
    assert supervised.cause(*places) == supervised.Cause("the stack runs without Airflow", "lakeward stack up")


def test_a_project_without_the_dag_is_the_cause_until_init_adds_it(places, monkeypatch) -> None:
    stack(monkeypatch)
    project, home = places
    project.dags.mkdir(parents=True)
    (project.dags / "mine.py").write_text("x = 1\n")
    found = supervised.cause(project, home, probe=False)
    assert found is not None
    assert "makes the Dag streams_reconcile" in found.why
    assert found.next == f"lakeward init --dags {project.root}"
    assert add_dags(project.root) == [
        "dags/lakeward_quality.py",
        "dags/lakeward_streams.py",
        "dags/lakeward_tables.py",
    ]
    assert supervised.cause(project, home, probe=False) is None
    (project.dags / "lakeward_tables.py").write_text("mine\n")
    assert add_dags(project.root) == [], "what is there is never overwritten"
    assert (project.dags / "lakeward_tables.py").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("text", "supervised_by_it"),
    [
        ("from lakeward.airflow.dags import dags\n\nglobals().update(dags())\n", True),
        ("from lakeward.airflow.dags import quality, streams\n\nglobals().update({**streams(), **quality()})\n", True),
        ("from lakeward.airflow import dags\n\nglobals().update(dags.tables())\n", False),
        ("from lakeward.airflow.dags import tables\n\nglobals().update(tables())\n", False),
        ("from lakeward.airflow.reconcile_dag import build\n\ndag = build()\n", True),  # as 0.1.0 wrote it
        ("def dags():\n    return {}\n\n\nglobals().update(dags())\n", False),
    ],
)
def test_a_dag_file_supervises_by_what_it_calls(places, text: str, supervised_by_it: bool) -> None:
    project, _ = places
    project.dags.mkdir(parents=True)
    (project.dags / "theirs.py").write_text(text)
    assert supervised.loads(project) is supervised_by_it


def test_dag_files_of_a_folder_that_is_not_there_are_refused(tmp_path) -> None:
    with pytest.raises(SpecError, match="Cannot write the Dag files"):
        add_dags(tmp_path / "away")


@pytest.mark.parametrize(
    ("dag", "run", "words", "command"),
    [
        ({"is_paused": True}, None, "is paused", "airflow dags unpause streams_reconcile"),
        ({"is_paused": False, "has_import_errors": True}, None, "cannot read the file", "/dags/streams_reconcile"),
        ({}, {"state": "failed", "dag_run_id": "r1"}, "runs/r1", "lakeward stack status"),
    ],
)
def test_what_airflow_knows_of_the_dag_is_the_cause(dag, run, words, command) -> None:
    found = supervised.judge(dag, run, SITE)
    assert found is not None
    assert words in found.why
    assert found.next.endswith(command)


def test_a_dag_that_runs_is_no_cause() -> None:
    assert supervised.judge({"is_paused": False}, {"state": "running"}, SITE) is None


def test_a_dag_that_airflow_cannot_read_is_reported_with_its_file_and_error(monkeypatch) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "t"})
        if request.url.path.endswith("/importErrors"):
            error = {"filename": "lakeward_streams.py", "stack_trace": "Traceback\nImportError: no module x"}
            return httpx.Response(200, json={"import_errors": [error]})
        return httpx.Response(404, json={})

    real = httpx.Client
    monkeypatch.setattr(
        httpx, "Client", lambda **more: real(transport=httpx.MockTransport(answer), base_url=more["base_url"])
    )
    found = supervised._of_airflow(SITE)
    assert found is not None
    assert found.why == "Airflow cannot read lakeward_streams.py: ImportError: no module x"
