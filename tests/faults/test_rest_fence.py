"""Races for a position in a real REST catalog, each decided as in a catalog that compares the whole metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rest_servers
from lossy_catalog import FAULTS
from rest_servers import HANDLERS, SEAWEEDFS

PROGRAM = Path(__file__).with_name("rest_fence_program.py")
LANDED = list(range(8))
MOVES = ("moved_in_a_driver", "moved_without_a_driver", "fenced_by_a_move", "grown")


def races(folder: Path, kind: str, *options: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), kind, *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    left = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"race"')]
    return {each.pop("race"): each for each in left}


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    "kind",
    [
        SEAWEEDFS,
        pytest.param(
            HANDLERS, marks=pytest.mark.campaign(held_by="test_the_tag_of_a_stream_refuses_every_stale_commit")
        ),
    ],
)
def test_the_tag_of_a_stream_refuses_every_stale_commit(tmp_path: Path, kind: str) -> None:
    left = races(tmp_path, kind)
    lost = left.pop("lost_answers")
    assert lost["values"] == list(range(4 * lost["trials"])), lost
    assert lost["tries"] == lost["seq"] == lost["trials"], "no answer that was lost fails a batch"
    assert lost["kinds"] == sorted(FAULTS)
    if kind == HANDLERS:
        assert lost["keys"] > 0, "a commit that was repeated had the key of the first one: the server has such keys"
    else:
        assert lost["keys"] is None, "no commit has a key where the server has no such keys"
    raced = left.pop("two_writers")
    assert raced["values"] == list(range(16)), raced
    assert (raced["landed"], raced["seq"]) == (4, 4)
    assert left == {
        # The zombie is refused; its driver, started again, says that landed rows are missing.
        "rolled_back": {"values": LANDED[:4], "seq": 3, "outcome": "Fenced", "again": "rolled-back"},
        "restored": {
            "values": LANDED,
            "seq": 4,
            "outcome": "Fenced",
            "restores": ["Fenced", "restored"],
            "again": "landed",
        },
        "moved_in_a_driver": {"values": LANDED, "seq": 2, "outcome": "commit-failed"},
        "moved_without_a_driver": {"values": LANDED, "seq": 2, "outcome": "Fenced"},
        "fenced_by_a_move": {"values": LANDED[:4], "seq": 2, "outcome": "Fenced", "query": ""},
        "grown": {"values": LANDED, "seq": 2, "outcome": "RetryCommit", "generation": 0},
        "moved_and_called_refused": {
            "values": LANDED,
            "seq": 3,
            "spoiled": ["409"],
            "there": True,
            "outcome": "landed",
        },
        "staging_called_refused": {"values": LANDED[:4], "seq": 1, "spoiled": ["409"], "outcome": "landed"},
    }


@pytest.mark.campaign
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kind", rest_servers.KINDS)
def test_without_the_tag_the_races_find_stale_commits(tmp_path: Path, kind: str) -> None:
    left = races(tmp_path, kind, "--unfenced")
    accepted = {name: left[name]["outcome"] for name in ("rolled_back", "restored", *MOVES)}
    assert accepted == {
        "rolled_back": "landed",  # over a position that says more
        "restored": "landed",  # likewise
        "moved_in_a_driver": "moved",
        "moved_without_a_driver": "moved",
        "fenced_by_a_move": "landed",  # over what a person decided
        "grown": "evolved",
    }
