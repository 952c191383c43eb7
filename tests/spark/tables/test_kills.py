"""A slice of the campaign of killed maintenance; the long run is `tests/faults/maintenance.py`."""

from __future__ import annotations

import random

import pytest
from maintenance_kills import OF_TODAY, STEPS, Rig, Trial
from maintenance_kills_delta import OPERATION, DeltaRig
from operation_kills import FORMAT, OperationRig
from operation_kills import STEPS as OF_OPERATIONS
from seeds import seed

pytestmark = pytest.mark.timeout(900)


@pytest.mark.seeded
@pytest.mark.parametrize(
    "first",
    [
        "sent",
        pytest.param(
            "drawn",
            marks=pytest.mark.campaign(
                held_by="test_a_killed_maintainer_leaves_nothing_half_and_its_successor_cleans_up"
            ),
        ),
    ],
)
def test_a_killed_maintainer_leaves_nothing_half_and_its_successor_cleans_up(connect_server, remote, tmp_path, first):
    chosen = seed(21)
    drawn = random.Random(chosen)
    rig = Rig(connect_server, tmp_path / "project", remote, here=True)
    action, step = ("compact", first) if first in STEPS else (drawn.choice(OF_TODAY), drawn.choice(STEPS))
    line = rig.run(Trial(chosen, action, step))
    assert line["ok"], line
    assert line["killed"] or step == "sent", line


@pytest.mark.campaign(held_by="test_a_killed_maintainer_leaves_nothing_half_and_its_successor_cleans_up")
@pytest.mark.seeded
@pytest.mark.parametrize("first", ["drawn", "sent"])
def test_nor_on_a_delta_table(connect_server, remote, tmp_path, first):
    chosen = seed(22)
    drawn = random.Random(chosen)
    rig = DeltaRig(connect_server, tmp_path / "project", remote, here=True)
    action, step = ("compact", first) if first in STEPS else (drawn.choice(list(OPERATION)), drawn.choice(STEPS))
    line = rig.run(Trial(chosen, action, step, "delta"))
    assert line["ok"], line
    assert line["killed"] or step == "sent", line


@pytest.mark.seeded
def test_a_restore_and_an_erase_that_were_killed_are_finished_by_the_same_command(connect_server, tmp_path):
    chosen = seed(23)
    drawn = random.Random(chosen)
    rig = OperationRig(connect_server, tmp_path / "project", here=True)
    for action, steps in OF_OPERATIONS.items():
        line = rig.run(Trial(chosen, action, drawn.choice(steps), FORMAT))
        assert line["killed"] and line["ok"], line


@pytest.mark.campaign
def test_an_erase_that_leaves_the_files_of_before_is_found(connect_server, tmp_path):
    rig = OperationRig(connect_server, tmp_path / "project", fault="old files stay")
    line = rig.run(Trial(1, "erase", "erase-rewritten", FORMAT))
    assert line["killed"]
    assert any("holds such a row" in each for each in line["problems"]), line


@pytest.mark.campaign
def test_a_successor_that_does_not_take_over_is_found(connect_server, remote, tmp_path):
    line = Rig(connect_server, tmp_path / "project", remote, "nobody takes over").run(Trial(1, "compact", "ran"))
    assert line["problems"] == ["1 actions stand in the ledger as if they ran"]
