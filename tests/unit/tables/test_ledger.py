"""What was done to a table, and what it saved, from the registry's rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeward.platform.errors import SpecError
from lakeward.registry import maintenance
from lakeward.tables import ledger

MB = 1 << 20
FIGURES = {"files": 60, "manifests": 61, "snapshots": 60}


@pytest.fixture
def kept(registry):
    """A table with one good and one failed compaction, one expiry, and one action under way."""
    maintenance.register(registry, "nyc.flights", format="iceberg", location="/lake", table_class="append-stream")

    def act(action: str, result: str | None, after: dict[str, object]) -> None:
        before = {**FIGURES, "promised_bytes": 90 * MB}
        number = maintenance.begin_action(
            registry, plan="p", table="nyc.flights", action=action, session_id="secret-session", before=before
        )
        if result:
            maintenance.finish_action(
                registry, number, result=result, verified=result == "done", after=after, duration_s=4.0, cpu_s=3.0
            )

    act("compact", "done", {**FIGURES, "files": 2, "files_taken": 60, "files_given": 2})
    act("compact", "failed", {**FIGURES, "files_taken": 0, "files_given": 0})
    act("expire", "done", {**FIGURES, "snapshots": 50, "snapshots_expired": 10})
    act("manifests", None, {})
    return registry


def test_history_says_before_and_after_newest_first(kept):
    said = ledger.history(kept, "nyc.flights")
    assert [(each["action"], each["result"], each["change"]) for each in said["actions"]] == [
        ("manifests", None, ""),
        ("expire", "done", "60 → 50 snapshots"),
        ("compact", "failed", ""),
        ("compact", "done", "60 → 2 files"),
    ]
    assert "secret-session" not in str(said)
    assert len(ledger.history(kept, "nyc.flights", limit=2)["actions"]) == 2


def test_savings_count_good_work_alone_and_all_that_it_cost(kept):
    said = ledger.savings(kept, "nyc.flights", price=0.5)
    assert (said["files_removed"], said["rewritten_bytes"], said["snapshots_expired"]) == (58, 90 * MB, 10)
    assert (said["actions"], said["failed"], said["cpu_s"], said["duration_s"]) == (4, 1, 9.0, 12.0)
    assert said["request_saving_usd_per_scan"] == pytest.approx(58 * 0.5 / 1_000_000)
    lines = "\n".join(ledger.sentences(said))
    assert "58 files fewer" in lines
    assert said["formula"] in lines


def test_a_table_nothing_was_done_to_saved_nothing(registry):
    maintenance.register(registry, "nyc.new", format="iceberg", location="/lake", table_class="static")
    said = ledger.savings(registry, "nyc.new")
    assert (said["since"], said["files_removed"], said["cpu_s"]) == (None, 0, 0)
    assert ledger.sentences(said)[0] == "nyc.new: 0 actions, 0 of them failed"


@pytest.mark.parametrize("ask", [ledger.history, ledger.savings])
def test_an_unknown_table_is_reported_with_the_nearest(kept, ask):
    with pytest.raises(SpecError, match="does not exist") as wrong:
        ask(kept, "nyc.flight")
    assert wrong.value.why == "Did you mean nyc.flights?"


def test_an_entry_needs_neither_end():
    row = dict.fromkeys(
        ("action", "result", "verified", "finished_at", "duration_s", "cpu_s", "why", "before", "after")
    )
    assert ledger.entry({**row, "started_at": datetime(2026, 3, 1, tzinfo=UTC)})["change"] == ""
