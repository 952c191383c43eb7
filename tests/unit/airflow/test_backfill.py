"""A backfill as an operation of a stream's Dag: the command it becomes, and how it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lakeward.airflow.stream_dags import _params
from lakeward.airflow.tasks import backfill, command
from lakeward.platform.errors import LakewardError, SpecError, TimedOut
from lakeward.platform.runtime import Home, Project, Runtime

_ASKED = {"comment": "-o json", "from": "earliest", "to": None, "into": "nyc.again", "overwrite": False}


def test_the_form_becomes_the_command() -> None:
    assert backfill.words("s", _ASKED) == [
        "streams", "backfill", "s", "--from=earliest", "--into=nyc.again", "--comment=-o json",
    ]  # fmt: skip
    assert backfill.words("s", {"windows": "a..b", "dry_run": True}) == [
        "streams", "backfill", "s", "--windows=a..b", "--dry-run",
    ]  # fmt: skip
    assert "--overwrite" in backfill.words("s", {**_ASKED, "overwrite": True})
    with pytest.raises(SpecError, match="has no comment"):
        backfill.words("s", {"from": "earliest", "comment": " "})
    assert set(backfill._OPTIONS) | {"overwrite", "dry_run", "comment"} <= set(_params())


def _runtime(**given: Any) -> Runtime:
    """Only what a command of a task reads of it."""
    return Runtime.model_construct(**given)


def _run(tmp_path: Path, params: dict[str, Any], **more: Any) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True, exist_ok=True)
    url = tmp_path / "registry.url"
    url.write_text("postgresql://nobody@127.0.0.1:1/none")
    runtime = _runtime(registry_url_file=url, pgpass=None)
    backfill.run("s", params, runtime, Home(tmp_path / "home"), Project(tmp_path), "ann", **more)


def test_what_the_command_says_is_in_the_log_and_its_failure_ends_the_run_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    assert "secret" not in str(command.environment(_runtime(registry_url_file=tmp_path), "ann"))
    with capture_logs() as said, pytest.raises(LakewardError, match="failed") as failed:
        _run(tmp_path, _ASKED)
    assert "exited with code" in failed.value.why
    assert any("No Lakeward stack was found" in line["event"] for line in said), said


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TimedOut, match="is not complete") as over:
        _run(tmp_path, _ASKED, within_s=0.05)
    assert over.value.next == "trigger this Dag again with the same values: it continues where it stopped"
    assert time.monotonic() - began < 600
