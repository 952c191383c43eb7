from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from lakeward.cli.app import main
from lakeward.cli.context import take_common_options
from lakeward.cli.demo import _hand_over
from lakeward.demo.report import Report
from lakeward.stack.state import Process, StackState

ROOT = Path(__file__).parents[3]


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
    assert lakeward("--check", "--home", str(tmp_path), "--project", str(ROOT)) == 4
    assert (home / "stack.json").exists()
    assert f"lakeward stack down --home {home}" in capsys.readouterr().err


def test_a_folder_that_is_not_the_checks_own_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "check").mkdir()
    (tmp_path / "check" / "precious.txt").write_text("mine")
    assert lakeward("--check", "--home", str(tmp_path), "--project", str(ROOT)) == 4
    assert (tmp_path / "check" / "precious.txt").read_text() == "mine"
    said = capsys.readouterr().err
    assert "precious.txt" in said
    assert "next: name another home" in said


def test_an_unwritable_report_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (tmp_path, tmp_path / "nosuch" / "r.json", tmp_path / "r.json" / "below"):
        assert lakeward("--check", "--home", str(tmp_path / "h"), "--project", str(ROOT), "--report", str(file)) == 2
        assert "Cannot write the report" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", [["--check"], []])
def test_a_project_that_is_none_is_reported_at_once(tmp_path: Path, form: list[str]) -> None:
    assert lakeward(*form, "--home", str(tmp_path / "h"), "--project", str(tmp_path / "nosuch")) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_project_without_the_demos_streams_is_reported_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf" / "streams").mkdir(parents=True)
    assert lakeward("--check", "--home", str(tmp_path / "h"), "--project", str(tmp_path)) == 2
    assert "has no stream delay_alerts, departures_hourly, flights" in capsys.readouterr().err
    assert [item.name for item in tmp_path.iterdir()] == ["conf"]


def test_a_report_that_cannot_be_written_after_all_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take_common_options([])  # what another test asked for last stands in the process
    assert not _hand_over(Report(1, 1000), tmp_path / "gone" / "r.json")
    out, err = capsys.readouterr()
    assert json.loads(out[: out.index("every claim holds")])["records"] == 1000
    assert "cannot be written" in err
    assert _hand_over(Report(1, 1000), tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["records"] == 1000
