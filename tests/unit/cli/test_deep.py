"""`config validate --deep` without Spark: one stream that its analysis fails on leaves the others their findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.deep import deep_problems
from lakeward.engine import analysis
from lakeward.engine.analysis import Finding
from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

STREAM = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 10}}
decode: {json: "year INT"}
transform: {sql: "SELECT * FROM source"}
sink: {iceberg: {table: a.%s}}
"""


def test_a_stream_that_spark_fails_on_is_a_problem_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    for name in ("a", "odd", "z"):
        (tmp_path / "conf" / "streams" / f"{name}.yaml").write_text(STREAM % name)

    def findings(spark: Any, spec: Any, *, runtime: Any) -> Iterator[Finding]:
        if spec.id == "odd":
            raise RuntimeError("java.lang.StackOverflowError")
        yield Finding(("transform", "sql"), "as expected")

    monkeypatch.setattr(analysis, "session", lambda specs, runtime: nullcontext())
    monkeypatch.setattr(analysis, "findings", findings)
    project = Project(tmp_path)
    found = deep_problems(project, load_project(project), None)
    assert [(each.file, each.line, each.message) for each in found] == [
        ("conf/streams/a.yaml", 4, "as expected"),
        ("conf/streams/odd.yaml", 4, "Spark cannot analyse this stream: RuntimeError: java.lang.StackOverflowError"),
        ("conf/streams/z.yaml", 4, "as expected"),
    ]
