from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import campaign
import pytest

CAMPAIGN = Path(campaign.__file__)

pytestmark = pytest.mark.unit


def test_seeds_are_numbers_and_ranges():
    assert campaign.seeds("1,4,7-9") == [1, 4, 7, 8, 9]


def test_what_is_known_is_not_run_again_and_half_a_line_is_not_known(tmp_path):
    results = tmp_path / "faults.jsonl"
    lines = [{"seed": 1, "ok": False, "problems": ["old"]}, {"seed": 1, "ok": True, "problems": []}]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"seed": 2, "ok"')
    assert campaign.known(results) == {1: {"seed": 1, "ok": True, "problems": []}}
    command = [sys.executable, str(CAMPAIGN), "--seeds", "1", "--results", str(results), "--home", str(tmp_path)]
    again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (again.returncode, again.stdout) == (0, "seed 1: ok\n")


def test_a_failed_seed_makes_the_campaign_fail(tmp_path):
    results = tmp_path / "faults.jsonl"
    results.write_text(json.dumps({"seed": 3, "ok": False, "problems": ["flights: 2 records are missing"]}) + "\n")
    command = [sys.executable, str(CAMPAIGN), "--seeds", "3", "--results", str(results), "--home", str(tmp_path)]
    again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "2 records are missing" in again.stdout
