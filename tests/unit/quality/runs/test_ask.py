"""The door: what reaches the checking process, and what comes back when it cannot work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.platform.errors import DependencyDown, LakewardError, SpecError, TimedOut
from lakeward.platform.runtime import Lake, Runtime
from lakeward.quality import check
from lakeward.quality.runs import process
from lakeward.quality.runs.process import CheckingProcess
from lakeward.quality.runs.request import Request, error_line, raise_line

SUITE = "table: ns.t\nowner: me\nexpectations:\n  - {type: expect_column_to_exist, kwargs: {column: id}}\n"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """A runtime that leads nowhere."""
    return Runtime(
        registry_url_file=tmp_path / "url", lake=Lake(port=1, warehouse=str(tmp_path)),
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / "ns.t.yaml").write_text(SUITE)
    return tmp_path


NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def test_the_caller_imports_no_engine() -> None:
    code = (
        "import sys, lakeward.quality; "
        "print([m for m in ('great_expectations', 'pyspark', 'pandas', 'pyiceberg') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_the_process_knows_nothing_it_need_not(monkeypatch, runtime: Runtime) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    monkeypatch.setenv("PGPASSFILE", "/somewhere")
    known = process.environment(runtime)
    assert "AIRFLOW__CORE__FERNET_KEY" not in known
    assert known["GX_ANALYTICS_ENABLED"] == "false"
    assert known["PGPASSFILE"] == "/somewhere"


def test_a_missing_suite_names_the_nearest(runtime: Runtime, project: Path) -> None:
    with pytest.raises(SpecError, match=r"ns\.x has no suite") as caught:
        check(runtime, NOWHERE, project, ["ns.x"])
    assert "did you mean ns.t?" in caught.value.why


def test_a_wrong_suite_is_reported_before_anything_starts(runtime: Runtime, project: Path) -> None:
    (project / "expectations" / "ns.u.yaml").write_text(SUITE.replace("ns.t", "ns.u") + "    scpe: table\n")
    for tables in (["ns.u"], None):
        with pytest.raises(SpecError, match=r"ns\.u\.yaml:5:"):
            check(runtime, NOWHERE, project, tables)


def test_ones_own_suite_needs_one_table(runtime: Runtime, project: Path) -> None:
    with pytest.raises(SpecError, match="exactly one table"):
        check(runtime, NOWHERE, project, suite=project / "expectations" / "ns.t.yaml")


def test_what_does_not_answer_is_reported_as_such(runtime: Runtime, project: Path, postgres) -> None:
    with pytest.raises(DependencyDown, match="registry"):
        check(runtime, NOWHERE, project, ["ns.t"])


def asked(runtime: Runtime, project: Path, timeout_s: float = 60) -> list[dict]:
    request = Request(runtime=runtime, registry_url=NOWHERE, project=project, tables=("ns.t",))
    with CheckingProcess(runtime) as made:
        return made.ask(request, timeout_s=timeout_s, emit=lambda level, text, fields: None)


def test_a_process_that_dies_is_an_error_with_its_last_words(runtime: Runtime, project: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(LakewardError, match="without an answer") as caught:
        asked(runtime, project)
    assert "exit code 1" in caught.value.why


def test_a_process_that_hangs_is_ended(runtime: Runtime, project: Path, monkeypatch, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\ncat > /dev/null\n")
    hanging.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(hanging))
    with pytest.raises(TimedOut):
        asked(runtime, project, timeout_s=0.2)


@pytest.mark.parametrize("kind", [SpecError, DependencyDown, LakewardError])
def test_errors_cross_the_pipe_as_what_they_are(kind: type[LakewardError]) -> None:
    with pytest.raises(kind, match="what") as caught:
        raise_line(error_line(kind("what", why="why", next="next"))["failed"])
    assert (type(caught.value), caught.value.why, caught.value.next) == (kind, "why", "next")
