"""Dag files at parse time: no network, no database, no engine; one bad file neither hides others nor is hidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import airflow_service
import pytest

REPOSITORY = Path(__file__).parents[2]
PARSE = """
import hashlib, json, socket, sys
from pathlib import Path

def refuse(*a, **k):
    raise AssertionError("a Dag file opened a connection")

socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
import psycopg2
psycopg2.connect = refuse
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
found, heavy = {}, set()
for file in sorted(Path(sys.argv[1]).glob("*.py")):
    module = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), module)
    for dag in module.values():
        if isinstance(dag, DAG):
            found[dag.dag_id] = {
                "paused": dag.is_paused_upon_creation,
                "owner": dag.owner,
                "tags": sorted(dag.tags),
                "doc": dag.doc_md,
                "params": {name: dict(dag.params.get_param(name).schema) for name in dag.params},
                "bytes": hashlib.sha256(json.dumps(DagSerialization.to_dict(dag), sort_keys=True).encode()).hexdigest(),
                "deadline": dag.deadline is not None,
                "runs": dag.max_active_runs,
                "schedule": dag.schedule if isinstance(dag.schedule, str) else None,
                "catchup": dag.catchup,
                "access": {k: {r: sorted(p) for r, p in v.items()} for k, v in (dag.access_control or {}).items()},
            }
heavy = {name for name in ("pyspark", "great_expectations", "pandas", "pyarrow", "pyiceberg") if name in sys.modules}
print(json.dumps({"dags": found, "heavy": sorted(heavy)}))
"""


def parse(project: Path, tmp_path: Path, **environment: str) -> dict:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", str(tmp_path)),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "LAKEWARD_PROJECT": str(project),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(REPOSITORY / "dags")],
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """A project with a good stream, one of a team, and two that are wrong, parsed two times."""
    root = tmp_path_factory.mktemp("parse")
    with airflow_service.project(root / "project", "flights", "alerts", "hourly") as project:
        (project.streams / "broken.yaml").write_text("owner: [unclosed\n")
        (project.streams / "typo.yaml").write_text(airflow_service.stream_file("typo").replace("trigger", "triger"))
        (project.streams / "alerts.yaml").write_text(
            airflow_service.stream_file("alerts") + "team: night\ntags: [core]\n"
        )
        # Sets iterate in another order, and the second parse finds what the first one kept.
        return parse(project.root, root, PYTHONHASHSEED="1"), parse(project.root, root, PYTHONHASHSEED="2")


@pytest.fixture(scope="module")
def parsed(twice: tuple[dict, dict]) -> dict:
    return twice[0]


@pytest.fixture(scope="module")
def again(twice: tuple[dict, dict]) -> dict:
    return twice[1]


def test_every_dag_is_there_and_arrives_unpaused(parsed: dict) -> None:
    assert sorted(parsed["dags"]) == [
        "quality_check",
        "schedule__hourly",
        "stream__alerts",
        "stream__broken",
        "stream__flights",
        "stream__hourly",
        "stream__typo",
        "streams_reconcile",
        "tables_maintain",
        "tables_observe",
        "tables_orphans",
        "tables_restore",
    ]
    assert {dag["paused"] for dag in parsed["dags"].values()} == {False}
    streams = {name: dag["runs"] for name, dag in parsed["dags"].items() if name.startswith("stream__")}
    assert set(streams.values()) == {4}, "a report does not wait behind an operation"
    others = {name: dag["runs"] for name, dag in parsed["dags"].items() if name not in streams}
    assert others.pop("streams_reconcile") == 2
    assert others.pop("tables_restore") == 4, "one that waits for a yes holds up no other"
    assert set(others.values()) == {1}


def test_parsing_imports_no_engine(parsed: dict) -> None:
    assert parsed["heavy"] == []


def test_a_wrong_file_keeps_its_dag_and_says_what_is_wrong(parsed: dict) -> None:
    doc = parsed["dags"]["stream__typo"]["doc"]
    assert "conf/streams/typo.yaml" in doc
    assert "triger" in doc
    assert "file has problems" in parsed["dags"]["stream__typo"]["tags"]
    assert "broken.yaml" in parsed["dags"]["stream__broken"]["doc"]
    assert "file has problems" not in parsed["dags"]["stream__flights"]["tags"]


def test_every_dag_explains_itself_and_has_an_owner(parsed: dict) -> None:
    for name, dag in parsed["dags"].items():
        assert len(dag["doc"]) > 300, name
        assert dag["owner"], name
        assert "lakeward" in dag["tags"], name
        assert "red" in dag["doc"], f"{name} does not say what red means"


def test_parameters_are_typed(parsed: dict) -> None:
    op = parsed["dags"]["stream__flights"]["params"]["op"]
    assert op["enum"][:4] == ["report", "start", "stop", "restart"]
    assert set(parsed["dags"]["stream__flights"]["params"]) >= {"op", "comment"}
    assert set(parsed["dags"]["tables_maintain"]["params"]) == {"table", "actions", "partitions", "engine", "dry_run"}
    assert set(parsed["dags"]["tables_orphans"]["params"]) == {"table", "dry_run"}
    assert set(parsed["dags"]["tables_restore"]["params"]) == {"table", "to", "comment", "kill", "dry_run"}
    assert set(parsed["dags"]["quality_check"]["params"]) == {"table", "scope", "dry_run"}


def test_operations_have_a_deadline(parsed: dict) -> None:
    late = {name for name, dag in parsed["dags"].items() if dag["deadline"]}
    assert late == {name for name in parsed["dags"] if name.startswith("stream__")}


def test_a_schedule_is_a_dag_of_its_own_that_does_not_catch_up(parsed: dict) -> None:
    dag = parsed["dags"]["schedule__hourly"]
    assert (dag["schedule"], dag["catchup"], dag["runs"]) == (airflow_service.SCHEDULE, False, 1)
    assert "0 0 29 2 *" in dag["doc"]
    assert parsed["dags"]["stream__hourly"]["schedule"] is None


def test_the_owning_team_gets_access(parsed: dict) -> None:
    assert "core" in parsed["dags"]["stream__alerts"]["tags"]
    assert list(parsed["dags"]["stream__alerts"]["access"]) == ["night"]
    assert parsed["dags"]["stream__flights"]["access"] == {}


def test_a_task_builds_only_its_own_dag(tmp_path: Path) -> None:
    with airflow_service.project(tmp_path / "project", "flights", "alerts") as project:
        found = parse(project.root, tmp_path, _AIRFLOW_PARSING_CONTEXT_DAG_ID="streams_reconcile")
        assert "streams_reconcile" in found["dags"]
        assert not [name for name in found["dags"] if name.startswith("stream__")]


def test_parsing_twice_gives_the_same_bytes(parsed: dict, again: dict) -> None:
    """Other bytes are another version of the Dag, at every parse."""
    assert again == parsed
