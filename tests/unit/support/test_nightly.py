"""A night goes on where it was interrupted, and the next begins with other seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nightly
import pytest
from nightly import Night, Step, steps


def test_an_interrupted_night_goes_on_and_one_that_is_over_is_followed_by_another(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    code = f"import sys; open({str(marks)!r}, 'a').write(sys.argv[1]); sys.exit(int(sys.argv[2]))"
    two = [Step("a", ("-c", code, "a", "0"), {}), Step("b", ("-c", code, "b", "3"), {})]
    first = Night(tmp_path / "nights")
    assert first.run(two[:1], whole=False) == []
    again = Night(tmp_path / "nights")
    assert again.base == first.base
    assert again.run(two, whole=True) == ["b"]
    assert marks.read_text() == "ab", "what has ended is not run again"
    state = json.loads((first.folder / "night.json").read_text())
    assert (state["steps"], state["over"]) == ({"a": 0, "b": 3}, True)
    assert Night(tmp_path / "nights").base != first.base


def test_every_campaign_has_results_of_its_own_in_the_nights_folder(tmp_path: Path) -> None:
    found = steps(1234, tmp_path)
    kept = [word for step in found for before, word in zip(step.words, step.words[1:], strict=False)
            if before == "--results"]  # fmt: skip
    assert len(kept) == len(set(kept)) >= 10
    assert all(Path(each).parent == tmp_path for each in kept)
    assert [step for step in found if step.words[0].endswith(".py") and not Path(step.words[0]).exists()] == []


def test_every_script_of_the_night_starts_by_itself(tmp_path: Path) -> None:
    """Without the path of the tests, as the night starts it."""
    scripts = sorted({step.words[0] for step in steps(1234, tmp_path) if step.words[0].endswith(".py")})
    started = [subprocess.Popen([sys.executable, each, "--help"], stdout=subprocess.DEVNULL) for each in scripts]
    assert {script: each.wait(120) for script, each in zip(scripts, started, strict=True)} == dict.fromkeys(scripts, 0)


def test_an_unknown_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        nightly.main(["--folder", str(tmp_path), "--only", "nothing"])
