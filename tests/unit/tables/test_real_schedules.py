"""A slice of the schedules on real Iceberg tables; the long run is `tests/faults/real_schedules.py`."""

from __future__ import annotations

import pytest
from real_table_schedule import RealSchedule


@pytest.mark.parametrize(
    "seed",
    [7, pytest.param(52, marks=pytest.mark.campaign(held_by="test_every_file_and_every_row_is_there"))],
)
def test_every_file_and_every_row_is_there(seed, tmp_path):
    schedule = RealSchedule(seed, root=tmp_path)
    assert not schedule.run()
    assert schedule.expired, "nothing expired: this proves nothing"
    assert schedule.taken, "nothing was an orphan: this proves nothing"


@pytest.mark.campaign(held_by="test_every_file_and_every_row_is_there")
@pytest.mark.parametrize(("planted", "seed", "words"), [("main only", 7, "names it"), ("no age", 1, "to be committed")])
def test_a_guard_that_is_taken_out_is_found_on_the_table(planted, seed, words, tmp_path):
    assert words in RealSchedule(seed, planted, root=tmp_path).run()
