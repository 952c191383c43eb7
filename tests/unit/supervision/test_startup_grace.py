from __future__ import annotations

from pathlib import Path

import time_machine

from lakeward.supervision.startup_grace import StartupGracePeriod


def test_a_registry_that_always_answered_needs_no_calm(tmp_path: Path) -> None:
    assert StartupGracePeriod(tmp_path).answered(server_up_s=3600) is None


def test_the_calm_starts_with_the_first_answer_and_lasts_one_lease(tmp_path: Path) -> None:
    with time_machine.travel("2026-03-01T03:00:00Z", tick=False) as clock:
        StartupGracePeriod(tmp_path, 15).lost()
        clock.shift(600)  # how long it was away does not matter
        assert "15 s" in (StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) or "")
        clock.shift(10)
        assert "5 s" in (StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) or "")
        clock.shift(6)
        assert StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) is None
        assert list(tmp_path.iterdir()) == []


def test_a_second_outage_starts_it_again(tmp_path: Path) -> None:
    with time_machine.travel("2026-03-01T03:00:00Z", tick=False) as clock:
        StartupGracePeriod(tmp_path, 15).lost()
        StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600)
        clock.shift(14)
        StartupGracePeriod(tmp_path, 15).lost()
        assert "15 s" in (StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) or "")


def test_a_server_that_was_just_restarted_counts_although_nobody_noticed(tmp_path: Path) -> None:
    assert "11 s" in (StartupGracePeriod(tmp_path, 15).answered(server_up_s=4) or "")


def test_a_clock_that_is_set_back_makes_no_wait_longer_than_one_lease(tmp_path: Path) -> None:
    with time_machine.travel("2026-03-01T03:00:00Z", tick=False) as clock:
        StartupGracePeriod(tmp_path, 15).lost()
        StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600)
        clock.move_to("2026-03-01T01:00:00Z")
        assert "15 s" in (StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) or "")
        clock.shift(16)
        assert StartupGracePeriod(tmp_path, 15).answered(server_up_s=3600) is None


def test_a_server_whose_clock_was_set_back_was_not_restarted(tmp_path: Path) -> None:
    assert StartupGracePeriod(tmp_path, 15).answered(server_up_s=-3600) is None
