from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import airflow_service
import pytest

import lakeward.spec
from lakeward.airflow import dag_summary
from lakeward.airflow.project import declared, named, table_intervals
from lakeward.platform.runtime import Project


@pytest.fixture
def project(tmp_path: Path):
    with airflow_service.project(tmp_path / "project", "flights", "alerts") as made:
        yield made


def test_every_file_is_a_stream_whatever_is_wrong_with_another(project: Project) -> None:
    (project.streams / "broken.yaml").write_text("owner: [unclosed\n")
    found = {item.id: item for item in declared(project)}
    assert sorted(found) == ["alerts", "broken", "flights"]
    assert found["flights"].problems == ()
    assert found["flights"].spec is not None
    assert found["broken"].spec is None
    assert "conf/streams/broken.yaml:2:1" in found["broken"].problems[0]


def test_a_file_that_cannot_name_a_stream_is_no_dag(project: Project) -> None:
    (project.streams / "not a name.yaml").write_text("owner: [unclosed\n")
    assert [item.id for item in declared(project)] == ["alerts", "flights"]


def test_a_project_without_streams_has_none(tmp_path: Path) -> None:
    assert declared(Project(tmp_path)) == []


def test_a_project_that_did_not_change_is_not_read_again(project: Project, monkeypatch) -> None:
    monkeypatch.delenv("LAKEWARD_HOME", raising=False)
    first = declared(project)
    with monkeypatch.context() as patched:
        patched.setattr("lakeward.airflow.project._read", lambda _: pytest.fail("it was read again"))
        assert declared(project) == first
    (project.streams / "alerts.yaml").write_text("owner: [unclosed\n")
    found = {item.id: item for item in declared(project)}
    assert found["alerts"].problems != ()
    assert found["flights"] == next(item for item in first if item.id == "flights")


def test_the_cache_depends_on_every_module_that_reads_a_spec() -> None:
    spec = Path(lakeward.spec.__file__).parent
    assert {file for file in dag_summary._code() if spec in file.parents} == set(spec.rglob("*.py"))


def test_a_cache_that_is_damaged_or_cannot_be_written_is_done_without(project: Project, monkeypatch) -> None:
    monkeypatch.delenv("LAKEWARD_HOME", raising=False)
    first = declared(project)
    cache = project.root / ".lakeward" / "cache"
    for text in ("", "{", "[]", '{"key": 1}'):
        (cache / "streams.json").write_text(text)
        assert declared(project) == first
    monkeypatch.setenv("LAKEWARD_HOME", str(cache / "streams.json"))  # a file, where a folder should be
    assert declared(project) == first


def test_a_task_needs_the_name_alone() -> None:
    assert named("flights").id == "flights"


def test_the_most_impatient_policy_decides_how_often_tables_are_looked_at(project: Project) -> None:
    assert table_intervals(project) == (None, None)
    project.tables_file.write_text(
        "policies:\n  - {match: nyc.*, observe: 2m}\n  - {match: nyc.b, observe: 10m, orphans: {every: 3d}}\n"
    )
    assert table_intervals(project) == (timedelta(minutes=2), timedelta(days=3))
