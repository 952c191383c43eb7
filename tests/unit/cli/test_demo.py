from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from lakeward.cli.app import main
from lakeward.stack.state import Process, StackState


def lakeward(*arguments: str) -> int:
    try:
        main(["demo", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("wrong", [["--records", "10"], ["--rate", "0"], ["--seed", "one"]])
def test_wrong_use_is_2_and_starts_nothing(tmp_path: Path, wrong: list[str]) -> None:
    assert lakeward("--check", "--home", str(tmp_path), *wrong) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_check_never_wipes_a_home_whose_stack_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "check"
    home.mkdir()
    living = Process.of(psutil.Process().pid)
    (home / "stack.json").write_text(json.dumps(StackState(supervisor=living).model_dump()))
    assert lakeward("--check", "--home", str(tmp_path)) == 4
    assert (home / "stack.json").exists()
    assert f"lakeward stack down --home {home}" in capsys.readouterr().err
