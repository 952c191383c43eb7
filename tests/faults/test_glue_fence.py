"""AWS Glue's catalog and signed REST requests in Spark; races for a position in Glue, as moto and a front imitate it.

Nothing here says how AWS itself behaves when two writers meet: the front compares versions as AWS documents.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LANDED = list(range(8))


def output(program: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(HERE / program), str(folder), *options],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]


def races(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    return {each.pop("race"): each for each in output("glue_fence_program.py", folder, *options)}


@pytest.mark.timeout(600)
def test_one_session_works_in_glue_and_in_a_catalog_of_signed_requests(tmp_path: Path) -> None:
    [done] = output("aws_catalogs_program.py", tmp_path)
    refused = {"said": "LW-3431 dependency", "text": "dependency"}
    assert done == {
        "glue": [1, 2], "rest": [1, 2], "unsigned": [], "signed": True, "denied": refused, "expired": refused,
        "rotated": {"wrong": "refused", "right": "read"}, "shown": [],
    }  # fmt: skip


@pytest.mark.campaign
@pytest.mark.timeout(1000)
def test_a_stale_commit_is_refused_where_the_version_is_compared(tmp_path: Path) -> None:
    left = races(tmp_path)
    versions, lost, raced = left.pop("versions"), left.pop("lost_answers"), left.pop("two_writers")
    assert versions["changes"] == versions["named"] > 0, "every change names the version that was read"
    assert versions["conflicts"] > 0, "the version alone has refused some"
    assert lost["values"] == list(range(4 * lost["trials"])), lost
    assert lost["tries"] == lost["seq"] == lost["trials"], "no answer that was lost fails a batch"
    assert lost["lost"] >= lost["trials"]
    assert raced["values"] == list(range(16)), raced
    assert (raced["landed"], raced["seq"]) == (4, 4)
    assert left == {
        "rolled_back": {"values": LANDED[:4], "seq": 3, "outcome": "Fenced", "again": "rolled-back"},
        "moved_in_a_driver": {"values": LANDED, "seq": 2, "outcome": "commit-failed"},
        "moved_without_a_driver": {"values": LANDED, "seq": 2, "outcome": "Fenced"},
        "fenced_by_a_move": {"values": LANDED[:4], "seq": 2, "outcome": "Fenced", "query": ""},
        "grown": {"values": LANDED, "seq": 2, "outcome": "RetryCommit", "generation": 0},
        "moved_and_not_answered": {"values": LANDED[:4], "seq": 2, "lost": 1, "outcome": "LW-3429"},
    }


@pytest.mark.campaign
@pytest.mark.timeout(1000)
def test_without_the_comparison_the_races_in_glue_find_stale_commits(tmp_path: Path) -> None:
    left = races(tmp_path, "--unfenced")
    left.pop("versions")
    assert {name: each["outcome"] for name, each in left.items()} == {
        "rolled_back": "landed",
        "moved_in_a_driver": "moved",
        "fenced_by_a_move": "landed",
    }


@pytest.mark.campaign
@pytest.mark.timeout(1000)
def test_where_no_version_is_compared_two_writers_land_one_batch(tmp_path: Path) -> None:
    raced = races(tmp_path, "--unversioned")["two_writers"]
    assert raced["landed"] > 4 or raced["values"] != list(range(16)), raced
