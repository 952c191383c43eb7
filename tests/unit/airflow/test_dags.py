"""All Dags by two lines in a Dag file, and the provider by its entry point: what an Airflow that has others gets."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakeward.airflow import dags as module

ROOT = Path(__file__).parents[3]
HOW = (ROOT / "docs/how-to/add-to-an-airflow.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_PROJECT", str(ROOT))


def run(code: str) -> set[str]:
    """The Dags that a file with this code has, as Airflow finds them."""
    from airflow.sdk import DAG

    names: dict[str, object] = {}
    exec(code, names)  # a Dag file is code, and this one is our own
    return {value.dag_id for value in names.values() if isinstance(value, DAG)}


def test_the_lines_of_the_how_to_give_the_dags_of_all_files_of_a_project() -> None:
    [code] = re.findall(r"```python\n(.+?)```", HOW, flags=re.DOTALL)
    assert "dag" in code and "airflow" in code, "Airflow skips files without these words"
    found = run(code)
    assert found == {name for file in (ROOT / "dags").glob("*.py") for name in run(file.read_text(encoding="utf-8"))}
    assert {"streams_reconcile", "stream__flights", "tables_observe", "quality_check"} <= found


@pytest.mark.parametrize("name", ["streams_reconcile", "stream__any", "tables_restore", "quality_check"])
def test_a_task_gets_its_own_dag_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(module, "get_parsing_context", lambda: SimpleNamespace(dag_id=name))
    assert set(module.dags()) == {name}
    monkeypatch.setattr(module, "get_parsing_context", lambda: SimpleNamespace(dag_id="theirs"))
    assert module.dags() == {}


def test_all_tasks_run_in_the_queue_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def queues() -> set[str]:
        return {task.queue for dag in module.dags().values() for task in dag.tasks}

    assert queues() == {"default"}
    monkeypatch.setenv("LAKEWARD_QUEUE", "lakehouse")
    assert queues() == {"lakehouse"}


def test_airflow_finds_the_provider_and_the_plugin_by_their_entry_points() -> None:
    [provider] = [each for each in entry_points(group="apache_airflow_provider") if each.dist.name == "lakeward"]
    assert provider.load()()["package-name"] == "lakeward"
    [plugin] = [each for each in entry_points(group="airflow.plugins") if each.dist.name == "lakeward"]
    assert plugin.load().name == "lakehouse"
    types = {each["connection-type"] for each in provider.load()()["connection-types"]}
    assert all(f"`{each}`" in HOW for each in types)
