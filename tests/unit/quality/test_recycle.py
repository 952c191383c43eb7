"""When the checking process is made again; limits are read again each time, from a project that may be wrong."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.platform.runtime import Project
from lakeward.quality.resident import recycle
from lakeward.quality.resident.recycle import ProcessUsage, due
from lakeward.spec.model.settings import Checker
from lakeward.spec.model.types import Duration, Memory

YOUNG = ProcessUsage(age_s=10, runs=1, rss=400 << 20)
LIMITS = Checker(max_age=Duration("1h"), max_runs=20, max_memory=Memory("600m"))


@pytest.mark.parametrize(
    ("used", "why"),
    [
        (YOUNG, None),
        (replace(YOUNG, age_s=3601), "checker.max_age"),
        (replace(YOUNG, runs=20), "20 runs"),
        (replace(YOUNG, rss=601 << 20), "601 MB, more than 600m"),
    ],
)
def test_past_any_limit_it_is_due_and_says_why(used: ProcessUsage, why: str | None) -> None:
    found = due(used, LIMITS)
    assert found is None if why is None else why in str(found)


def test_limits_are_the_projects_as_they_are_now_and_the_defaults_where_they_are_wrong(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert recycle.limits(project) == Checker()
    project.settings_file.parent.mkdir()
    project.settings_file.write_text("checker: {max_runs: 7}\n")
    assert recycle.limits(project).max_runs == 7
    project.settings_file.write_text("checker: {max_runs: none}\n")
    assert recycle.limits(project) == Checker()


def test_changed_code_or_addresses_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, runtime = tmp_path / "lakeward" / "x.py", tmp_path / "runtime.json"
    code.parent.mkdir()
    code.write_text("a = 1\n")
    monkeypatch.setattr(recycle, "_CODE", tmp_path)
    seen = [recycle.code_digest(runtime)]
    runtime.write_text("{}")
    seen.append(recycle.code_digest(runtime))
    os.utime(code, (1, 1))
    seen.append(recycle.code_digest(runtime))
    monkeypatch.setattr(recycle, "version", lambda package: "99")
    seen.append(recycle.code_digest(runtime))
    assert len(set(seen)) == len(seen)
    assert recycle.code_digest(runtime) == seen[-1]
