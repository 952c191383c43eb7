"""`quality import` and `quality export` as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.app import main

FOUND: dict[str, Any] = {
    "name": "mine",
    "id": "0d1e6f3e-8f3f-4b64-9b53-6c4fbd0a3f6e",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}, "severity": "critical"},
        {"type": "expect_column_values_to_be_fine", "kwargs": {"column": "a"}},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    (tmp_path / "suite.json").write_text(json.dumps(FOUND))
    return tmp_path


def lakeward(capsys: pytest.CaptureFixture[str], project: Path, *arguments: str) -> tuple[int, str, str]:
    try:
        main([*arguments, "--project", str(project), "--home", str(project / "home")])
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_an_import_is_written_linted_and_never_over_another(project: Path, capsys: Any) -> None:
    # Its lint imports Great Expectations: in a process of its own, once.
    code = "import sys; from lakeward.cli.app import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "quality", "import", "n.t", str(project / "suite.json"), "--owner", "me"]
    done = subprocess.run([*command, "-o", "json", "--project", str(project)], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    said = json.loads(done.stdout)
    assert (said["file"], said["expectations"], said["ok"]) == ("expectations/n.t.yaml", 2, False)
    assert [each[:3] for each in said["left"]] == ["id:"]
    text = (project / "expectations" / "n.t.yaml").read_text()
    (wrong,) = said["problems"]
    assert "expect_column_values_to_be_fine" in text.splitlines()[wrong["line"] - 1]

    answer, _, err = lakeward(capsys, project, "quality", "import", "n.t", str(project / "suite.json"))
    assert answer == 4 and "--force" in err
    assert (project / "expectations" / "n.t.yaml").read_text() == text

    answer, out, _ = lakeward(capsys, project, "quality", "export", "n.t")
    assert answer == 0
    back = json.loads(out)
    assert back["meta"] == {"lakeward": {"table": "n.t", "owner": "me"}}
    assert [each["type"] for each in back["expectations"]] == [each["type"] for each in FOUND["expectations"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "n.t"), "n.t has no suite"),
        (("export", "t"), "not a valid table name"),
        (("import", "n.t", "nowhere.json"), "Cannot read"),
        (("import", "n.t", __file__), "is not JSON"),
        (("import", "../t", __file__), "is not JSON"),
    ],
)
def test_what_cannot_be_done_is_said(project: Path, capsys: Any, arguments: tuple[str, ...], words: str) -> None:
    code, _, err = lakeward(capsys, project, "quality", *arguments)
    assert (code, words in err) == (2, True), err
    assert not (project / "expectations").exists()
