"""Which tables come first when not all can."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakeward.tables.plan.model import Action, Plan, Rewrite
from lakeward.tables.plan.rank import Candidate, rank

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def table(name: str, files: int, seconds: float, waiting: float = 0, reads: float = 1) -> Candidate:
    rewrite = Rewrite("final", ("",), (), 96, 128, takes=files, gives=0, takes_bytes=1)
    action = Action("compact", "due", files=files, rewrites=(rewrite,), expected_s=seconds)
    return Candidate(Plan(name, 1, (action,), ()), timedelta(hours=waiting), reads)


def names(candidates: list[Candidate], budget: float) -> list[str]:
    return [each.table for each in rank(candidates, budget, NOW)[0]]


def test_the_most_gain_for_the_least_cost_comes_first():
    assert names([table("dear", 100, 900), table("cheap", 100, 10), table("little", 1, 10)], 1e9) == [
        "cheap", "dear", "little",
    ]  # fmt: skip
    assert names([table("unread", 100, 10), table("read", 60, 10, reads=3)], 1e9) == ["read", "unread"]


def test_a_table_with_nothing_due_does_not_compete():
    assert rank([Candidate(Plan("quiet", 1, (), ()))], 10, NOW) == ([], [])


def test_what_the_budget_leaves_out_is_reported_with_when():
    chosen, left = rank([table("a", 100, 60), table("b", 50, 60), table("c", 1, 30)], 100, NOW)
    assert [each.table for each in chosen] == ["a", "c"], "what fits beside it is not kept waiting"
    assert [(each.table, each.next_at) for each in left] == [("b", NOW + timedelta(seconds=90))]
    assert left[0].why == "place 2 of 3: needs 60 s, 40 s of the budget's 100 s were left"


def test_waiting_brings_every_table_to_the_front():
    busy = [table(f"busy{n}", 1000, 10) for n in range(5)]
    assert "poor" not in names([*busy, table("poor", 1, 50)], 50)
    hours = next(h for h in range(100) if "poor" in names([*busy, table("poor", 1, 50, waiting=h)], 50))
    assert hours <= 21, "0.7 of gain and 0.3 of cost are made up for in twenty hours"


def test_a_table_dearer_than_the_budget_is_taken_when_it_comes_first():
    assert names([table("huge", 10, 5000)], 100) == ["huge"]
    assert names([table("huge", 10, 5000, waiting=30), table("small", 10, 5)], 100) == ["huge"]


def test_snapshots_count_less_than_files():
    expire = Candidate(Plan("expire", 1, (Action("expire", "", files=500),), ()))
    manifests = Candidate(Plan("manifests", 1, (Action("manifests", "", files=100),), ()))
    assert names([expire, manifests], 10) == ["manifests", "expire"]
