"""How tables stand, where one of them cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.quality.results import status

SUITE = "table: ns.{name}\nowner: me\nexpectations:\n  - {{type: expect_column_to_exist, kwargs: {{column: a}}}}\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError("metadata.json"), "Cannot read table ns.a: FileNotFoundError: metadata.json"),
        (DependencyDown("The catalog does not answer", why="refused"), "The catalog does not answer: refused"),
    ],
)
def test_a_table_that_cannot_be_read_is_reported_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    (tmp_path / "expectations").mkdir()
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    for name in ("a", "b"):
        (tmp_path / "expectations" / f"ns.{name}.yaml").write_text(SUITE.format(name=name))

    def fails(*given: Any) -> None:
        raise error

    monkeypatch.setattr(status, "observe", fails)
    runtime = Runtime(
        registry_url_file=tmp_path / "url", pgpass=None, lake=Lake(warehouse=str(tmp_path)),
        checkpoints=str(tmp_path), drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip
    found = status.proof_status(runtime, "postgresql://nowhere/x", Project(tmp_path))
    assert [(each.table, each.error) for each in found] == [("ns.a", said), ("ns.b", said.replace("ns.a", "ns.b"))]
