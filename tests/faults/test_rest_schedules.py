"""Random schedules in a real REST catalog: a slice of the campaign, and that it finds what the tag prevents."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("rest_schedules.py")
pytestmark = pytest.mark.timeout(1000)


def results(file: Path, *options: str) -> list[dict[str, object]]:
    command = [sys.executable, str(PROGRAM), "--results", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert file.exists() and done.returncode in (0, 1), done.stderr[-4000:]
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.campaign(held_by="tests/faults/test_rest_fence.py::test_the_tag_of_a_stream_refuses_every_stale_commit")
def test_no_schedule_loses_or_doubles_a_row(tmp_path: Path) -> None:
    found = results(tmp_path / "found.jsonl", "--seeds", "8")
    assert len(found) == 8 and [each for each in found if not each["ok"]] == []


@pytest.mark.campaign
def test_without_the_tag_the_schedules_find_stale_commits(tmp_path: Path) -> None:
    """Seeds 0 and 4 block the stream before it doubles: another guard knows the batch. In seed 2 a count falls."""
    found = {each["seed"]: each["wrong"] for each in results(tmp_path / "found.jsonl", "--seeds", "5", "--unfenced")}
    assert found == {
        0: "lost [8, 9, 10, 11]",
        1: "",
        2: "the count of batches fell from 3 to 2",
        3: "",
        4: "lost [8, 9, 10, 11]",
    }
