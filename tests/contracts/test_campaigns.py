"""What the docs say of the campaigns is what their results say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "explanation"
PAGE = (FOLDER / "faults.md").read_text()
RESULTS = sorted(FOLDER.glob("*.jsonl"))


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_trial_that_is_kept_held_and_is_there_once(file: Path) -> None:
    lines = _lines(file)
    assert [line["seed"] for line in lines if not line["ok"]] == []
    seeds = [line["seed"] for line in lines]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_the_page_gives_the_number_of_trials(file: Path) -> None:
    trials = [line for line in _lines(file) if not str(line["seed"]).startswith("proof")]
    assert re.search(rf"`{file.name}`: {len(trials)} trials", PAGE)


def test_the_table_of_the_demo_is_its_results() -> None:
    told = {
        int(row[0]): (int(row[1]), int(row[2]), int(row[3]))
        for row in re.findall(r"^\| (\d+) \| [^|]+ \| \S+ \| (\d+) \| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    }
    found = {}
    for line in _lines(FOLDER / "faults.jsonl"):
        sums = [sum(each[name] or 0 for each in line["streams"]) for name in ("missing", "duplicates")]
        found[line["seed"]] = (*sums, sum(each["mismatched_windows"] or 0 for each in line["streams"]))
    assert told == found
