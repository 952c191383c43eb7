"""A slice of the campaign of killed maintenance; the long run is `tests/faults/maintenance.py`."""

from __future__ import annotations

import random

import pytest
from maintenance_kills import STEPS, Rig, Trial

from lakeward.tables.plan import ORDER

pytestmark = pytest.mark.timeout(900)


def test_a_killed_maintainer_leaves_nothing_half_and_its_successor_cleans_up(connect_server, remote, tmp_path):
    seed = random.randrange(10**6)
    drawn = random.Random(seed)
    print(f"seed {seed}")
    rig = Rig(connect_server, tmp_path / "project", remote)
    for trial in (Trial(seed, "compact", "sent"), Trial(seed, drawn.choice(ORDER), drawn.choice(STEPS))):
        line = rig.run(trial)
        assert line["ok"], line
        assert line["killed"] or trial.step == "sent", line


def test_a_successor_that_does_not_take_over_is_found(connect_server, remote, tmp_path):
    line = Rig(connect_server, tmp_path / "project", remote, "nobody takes over").run(Trial(1, "compact", "ran"))
    assert line["problems"] == ["1 actions stand in the ledger as if they ran"]
