"""A slice of the campaign of exactly once: every (sink, mode) killed once, at a step that the seed names.

The same two drivers host a stream killed between its quarantine and its publication, one whose Python worker dies, and
a hop without batches (`exactly_once_others.py`).
"""

from __future__ import annotations

from typing import Any

import pytest
from exactly_once import steps_of
from exactly_once_others import ROWS, WithOthers
from exactly_once_round import Rounds
from exactly_once_streams import ALL, BY_NAME
from seeds import seed
from world import with_database

from lakeward import jars

_COMPILES = jars.find_java().binary.with_name("javac").exists()
pytestmark = [
    pytest.mark.timeout(1800),  # a bound for a hang; a busy machine may need minutes
    pytest.mark.skipif(not _COMPILES, reason="hooks into the JVM need a JDK; this Java is a runtime alone"),
]


SEED = 464
"""Each step comes once or twice; the plainest stream dies between its publication and Spark's commit log."""


@pytest.fixture
def served(world: Any, postgres: Any) -> Any:
    """The world with a database for sinks."""
    database = postgres.create_database()
    yield with_database(world, database)
    world.end()
    postgres.drop_database(database)


@pytest.mark.seeded
def test_every_sink_and_mode_killed_at_a_step_has_every_record_once(served: Any) -> None:
    chosen = seed(SEED)
    rounds = WithOthers(served, ALL)
    rounds.deploy_others()
    lines = rounds.run(chosen, steps_of(chosen, ALL))
    left = rounds.others()
    rounds.stop()
    assert left == {
        "rows": [list(range(ROWS))] * 2,
        "quarantine": [[b"junk"], [b"junk"]],
        "totals": {"consumed": ROWS + 1, "landed": ROWS, "quarantined": 1, "filtered": 0, "skipped": 0},
        "lost its worker": True,
        "failed": [],  # the task was tried again
        "hop": list(range(300)),
        "hop, twice": [],  # of what came before its last boundary
    }
    print(*(f"{line['seed']} {line['cell']}" for line in lines), sep="\n")
    assert [(line["seed"], line["cell"], line["problems"]) for line in lines if not line["ok"]] == []
    assert len(lines) >= 16
    missed = [(line["seed"], line["wished"], line["facts"]) for line in lines if line["cell"] == "none"]
    # A stream may be past its step, or not there yet, when the process is killed: right as well, but of no cell.
    assert len(missed) <= len(lines) // 2, missed


@pytest.mark.campaign
def test_the_oracle_hears_of_a_guard_that_is_missing(served: Any) -> None:
    kinds = [BY_NAME[name] for name in ("iceberg-append", "postgres-append", "files-append")]
    rounds = Rounds(served, kinds, plant="replay")
    lines = rounds.run(1, {kind.name: "after-publish" for kind in kinds})
    rounds.stop()
    for line in lines:
        assert line["cell"] == "after-publish", line
        assert any(each.startswith("doubled: ") for each in line["problems"]), line
