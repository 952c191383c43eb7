"""What a table's task of `quality_check` tells, from a real registry."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from structlog.testing import capture_logs

from lakeward.airflow.quality_dags import log_verdict
from lakeward.platform.runtime import Home, Lake, Project, Runtime
from lakeward.registry import engine, events, verifications
from lakeward.spec.read.loader import load_project


@pytest.fixture
def runtime(own_registry_url: str, postgres: Any, tmp_path: Path) -> Runtime:
    url = tmp_path / "registry.url"
    url.write_text(own_registry_url)
    return Runtime(
        registry_url_file=url, pgpass=postgres.pgpass, lake=Lake(warehouse=str(tmp_path)),
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


def record(
    runtime: Runtime, pgpass: Path, verdict: str, suite: str = "digest", on_fail: str = "hold", rows: int = 40
) -> None:
    """One run of two checks; the first fails when held, is an error when not checked."""
    state = {"hold": "fail", "error": "error"}.get(verdict, "pass")
    row = {
        "run": "r1", "table": "ns.t", "suite": suite, "scope": "increment", "at": datetime.now(UTC),
        "from_snapshot": 1, "to_snapshot": 3, "to_sequence": 3, "verdict": verdict, "first_bad_snapshot": None,
        "verified_snapshot": 1, "batches": [], "spark_jobs": 2, "duration_s": 1.5, "note": "", "cpu_s": 0.4,
    }  # fmt: skip
    facts = {"value": None, "rows": rows, "kwargs": {"column": "a"}, "effect": "hold", "error": "no such column",
             "on_fail": on_fail, "scope": "increment"}  # fmt: skip
    checks = [
        {"check": name, "expectation": "expect_column_values_to_not_be_null", "severity": "critical", "state": found,
         "observed": {**facts, "by": by}, "unexpected_count": 2 if found == "fail" else 0, "sample": []}
        for name, found, by in (("c1", state, "rows"), ("c2", "pass", "metadata"))
    ]  # fmt: skip
    with engine.connect(runtime.registry_url_file.read_text(), pgpass) as connection:
        verifications.record(connection, row, checks)


def test_a_green_verdict_tells_its_story_in_ten_lines(runtime: Runtime, postgres: Any) -> None:
    record(runtime, postgres.pgpass, "pass")
    with capture_logs() as told:
        log_verdict(runtime, "ns.t", "r1")
    assert [each["event"] for each in told] == [
        "range: snapshots 1 (exclusive) to 3",
        "decided: 1 from metadata, 1 in one pass over the rows; 40 rows read",
        "verdict pass (2 pass)",
        "verified is at snapshot 1",
        "cost: 1.5 s, 0.4 CPU-s of the checking process, 2 Spark jobs",
    ]


@pytest.mark.parametrize(
    ("verdict", "red", "line"),
    [
        ("hold", "ns.t is held", "failed: 2 of 40 rows"),
        ("error", "neither a pass nor a failure", "could not be computed: no such column"),
    ],
)
def test_a_red_verdict_has_words_of_its_own(runtime: Runtime, postgres: Any, verdict: str, red: str, line: str) -> None:
    record(runtime, postgres.pgpass, verdict)
    with capture_logs() as told, pytest.raises(AirflowFailException, match=red):
        log_verdict(runtime, "ns.t", "r1")
    errors = [each["event"] for each in told if each["log_level"] == "error"]
    assert any(line in each for each in errors)
    assert "readers stay on verified snapshot 1" in errors
    assert len(told) <= 10


def test_a_run_that_found_nothing_new_left_no_record_and_is_green(runtime: Runtime) -> None:
    with capture_logs() as told:
        log_verdict(runtime, "ns.t", "r0")
    assert ["the earlier verdict is still valid" in each["event"] for each in told] == [True]


def test_a_policy_that_may_not_act_says_why_in_the_log_and_the_run(
    runtime: Runtime, postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = Home(tmp_path / "home"), Project(tmp_path / "project")
    home.secrets.mkdir(parents=True)
    home.registry_url_file.write_text(runtime.registry_url_file.read_text())
    home.pgpass.write_bytes(postgres.pgpass.read_bytes())
    home.pgpass.chmod(0o600)
    home.runtime_file.write_text(runtime.model_dump_json())
    for folder in (project.streams, project.expectations):
        folder.mkdir(parents=True)
    check = "{type: expect_column_values_to_not_be_null, kwargs: {column: a}, on_fail: quarantine}"
    (project.expectations / "ns.t.yaml").write_text(f"table: ns.t\nowner: me\nexpectations: [{check}]\n")
    monkeypatch.setenv("LAKEWARD_HOME", str(home.root))
    monkeypatch.setenv("LAKEWARD_PROJECT", str(project.root))
    digest = load_project(project).suites["ns.t"].digest
    record(runtime, postgres.pgpass, "hold", digest, "quarantine")
    with capture_logs() as told, pytest.raises(AirflowFailException, match="is held"):
        log_verdict(runtime, "ns.t", "r1")
    why = "policy: no row was moved by on_fail: quarantine: No stream lands in ns.t"
    assert any(why in each["event"] for each in told), told
    with engine.connect(runtime.registry_url_file.read_text(), postgres.pgpass) as connection:
        found = verifications.of_run(connection, "r1")
        assert found is not None and why in found["note"]
        last = events.newest(connection, "table", "ns.t")[-1]
    assert last.kind == "quarantine_left" and why in last.text
