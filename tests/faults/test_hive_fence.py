"""Races for a position in a real Hive Metastore, whose commit compares the location of the whole metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import metastore
import pytest

PROGRAM = Path(__file__).with_name("hive_fence_program.py")
LANDED = list(range(8))


def races(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *options], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    left = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"race"')]
    return {each.pop("race"): each for each in left}


@pytest.fixture(params=["derby", "postgresql"])
def database(request: pytest.FixtureRequest, postgres: Any, tmp_path: Path) -> Iterator[list[str]]:
    """The option of the program for each kind of a metastore's database."""
    if request.param == "derby":
        yield []
        return
    name = postgres.create_database()
    yield [f"--database={metastore.on_postgres(postgres, name, tmp_path / 'database.json')}"]
    postgres.drop_database(name)


@pytest.mark.campaign
@pytest.mark.timeout(1000)
def test_a_metastore_refuses_every_stale_commit(tmp_path: Path, database: list[str]) -> None:
    left = races(tmp_path, *database)
    lost = left.pop("lost_answers")
    assert lost["values"] == list(range(4 * lost["trials"])), lost
    assert lost["tries"] == lost["seq"] == lost["trials"], "no answer that was lost fails a batch"
    assert lost["lost"] >= lost["trials"]
    raced = left.pop("two_writers")
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
def test_without_the_comparison_the_races_find_stale_commits(tmp_path: Path, database: list[str]) -> None:
    left = races(tmp_path, "--unfenced", *database)
    assert {name: each["outcome"] for name, each in left.items()} == {
        "rolled_back": "landed",
        "moved_in_a_driver": "moved",
        "fenced_by_a_move": "landed",
    }
