"""What may go, and what looks like a mistake: pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.connectors.file_access import Entry, Folder
from lakeward.spec.model.policy import Orphans
from lakeward.tables.observe.listing import TRASH_FOLDER, Listing
from lakeward.tables.observe.references import Reference
from lakeward.tables.plan.model import Action, Needs, NotPlanned
from lakeward.tables.plan.orphans import Survey, judge, not_listed_because, oldest_removable, rules, shown

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=30), NOW - timedelta(hours=1)
BEFORE = NOW - timedelta(days=7)
HERE = "/lake/nyc/flights"


def listing(*paths: str, at: datetime = OLD, size: int = 10) -> Listing:
    """Files below the location, each in its folder."""
    made = Listing(HERE)
    for path in paths:
        folder, _, name = path.rpartition("/")
        made.add(Folder(folder, (), (Entry(name, size, at),)))
    return made


def named(*paths: str, by: int = 1) -> list[Reference]:
    return [Reference(path if "/" in path[:1] or ":" in path else f"{HERE}/{path}", by) for path in paths]


def test_what_is_old_and_named_by_nothing_is_an_orphan():
    held = listing("data/a.parquet", "data/b.parquet", "metadata/v1.metadata.json")
    held.add(Folder("data", (), (Entry("new.parquet", 10, YOUNG),)))
    held.refer(named("data/a.parquet", f"file:{HERE}/metadata/v1.metadata.json"), fresh=set())
    found = held.survey(BEFORE)
    assert (found.listed, found.listed_bytes, found.orphans, found.orphan_bytes, found.young) == (4, 40, 1, 10, 1)
    assert held.orphans(BEFORE, 10) == [("data/b.parquet", 10)]
    assert (found.lost, found.elsewhere, found.strangers, found.mismatched) == (0, 0, (), ())


@pytest.mark.parametrize(
    "path", ["_SUCCESS", "data/.a.parquet.crc", "data/_temporary/0/a.parquet", ".hidden/a.parquet"]
)
def test_what_engines_hide_is_nobodys_orphan(path):
    assert listing(path).survey(BEFORE).orphans == 0


def test_a_partition_whose_column_begins_with_a_low_line_is_not_hidden():
    assert listing("data/_day=1/a.parquet").survey(BEFORE).orphans == 1


@pytest.mark.parametrize(
    ("location", "name", "found"),
    [
        ("s3://lake/t", "s3a://lake/t/data/a", False),
        ("s3a://lake/t", "s3n://lake/t/data/a", False),
        ("s3://lake/t", "s3://other/t/data/a", True),
        ("s3://lake/t", "gs://lake/t/data/a", True),
        ("s3://lake/t", "s3://lake/t2/data/a", False),
        ("/lake/t", "file:///lake/t/data/a", False),
        ("file:/lake/t", "/lake/t/data/a", False),
        ("/lake/t", "file://host/lake/t/data/a", True),
        ("/lake/t", "hdfs://name/lake/t/data/a", True),
        ("/lake/t", "/other/data/a", False),
    ],
)
def test_the_same_path_in_another_place_is_a_mismatch(location, name, found):
    held = Listing(location)
    held.add(Folder("data", (), (Entry("a", 1, OLD),)))
    held.refer([Reference(name, 1)], fresh=set())
    assert bool(held.mismatched) == found
    decided = judge(held.survey(BEFORE), Orphans(max_share=0.99))
    assert ("another scheme, bucket, host or link" in _why(decided)) == found


def test_a_path_through_a_link_is_a_mismatch(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "data").mkdir(parents=True)
    link.symlink_to(real)
    held = Listing(str(link))
    held.refer([Reference(f"{real}/data/a", 1)], fresh=set())
    assert held.mismatched == [f"{real}/data/a"]


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        (Folder("checkpoint", ("commits", "offsets", "sources"), ()), "a checkpoint at checkpoint"),
        (Folder("", ("commits", "offsets"), ()), "a checkpoint at the location itself"),
        (Folder("inner", ("_delta_log",), ()), "a Delta table at inner"),
        (Folder("a/b/metadata", (), (Entry("v1.metadata.json", 1, OLD),)), "an Iceberg table at a/b"),
    ],
)
def test_what_is_not_the_tables_own_stops_everything(folder, what):
    held = listing("data/a.parquet")
    held.add(folder)
    decided = judge(held.survey(BEFORE), Orphans(max_share=0.99))
    assert isinstance(decided, NotPlanned)
    assert (decided.refused, what in decided.why) == (True, True)


def test_a_needed_file_that_is_not_listed_stops_everything_unless_it_was_committed_since():
    held = listing("data/a.parquet", "data/orphan.parquet")
    held.refer(named("data/a.parquet"), fresh={2})
    held.refer(named("data/since.parquet", by=2), fresh={2})
    assert held.survey(BEFORE).lost == 0
    held.refer(named("data/gone.parquet", by=1), fresh={2})
    decided = judge(held.survey(BEFORE), Orphans(max_share=0.99))
    assert "data/gone.parquet" in _why(decided)
    assert isinstance(decided, NotPlanned) and decided.refused
    held.refer([Reference(f"{HERE}/metadata/old.metadata.json", must=False)], fresh=set())
    assert held.survey(BEFORE).lost == 1


def test_what_was_set_aside_is_neither_listed_nor_lost_for_good():
    held = listing("data/a.parquet")
    held.add(Folder(f"{TRASH_FOLDER}/20260201T000000Z/data", (), (Entry("b.parquet", 7, OLD),)))
    held.add(Folder(f"{TRASH_FOLDER}/20260208T000000Z", (), (Entry("c", 5, OLD),)))
    held.refer(named("data/a.parquet", "data/b.parquet"), fresh=set())
    found = held.survey(BEFORE)
    assert (found.listed, found.orphans, found.trashed, found.trashed_bytes, found.lost) == (1, 0, 2, 12, 1)
    assert list(held.trashed_but_required()) == [("data/b.parquet", "20260201T000000Z")]
    assert held.runs() == {"20260201T000000Z": (1, 7), "20260208T000000Z": (1, 5)}


def test_a_file_that_comes_into_use_after_it_was_taken_is_reported():
    held = listing("data/a.parquet", "data/b.parquet")
    held.taken("data/a.parquet")
    assert held.refer(named("data/a.parquet", "data/b.parquet")) == ["data/a.parquet"]
    assert held.orphans(BEFORE, 10) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Survey(listed=100, listed_bytes=1000, orphans=5, orphan_bytes=101), "max_share (0.1)"),
        (Survey(listed=10**7, listed_bytes=10**9, orphans=100_001, orphan_bytes=10), "max_files (100000)"),
    ],
)
def test_too_much_looks_like_a_mistake(found, words):
    decided = judge(found, Orphans())
    assert isinstance(decided, NotPlanned)
    assert (decided.refused, words in decided.why) == (True, True)


def test_what_may_go_is_reported_in_files_and_bytes():
    decided = judge(Survey(listed=100, listed_bytes=1000, orphans=5, orphan_bytes=100), Orphans())
    assert isinstance(decided, Action)
    assert (decided.files, decided.size_bytes) == (5, 100)
    assert decided.why == "5 orphan files of 100 B among 100 files of 1000 B"
    nothing = judge(Survey(listed=3, young=2), Orphans())
    assert isinstance(nothing, NotPlanned)
    assert (nothing.refused, nothing.why) == (False, "no orphans among 3 files, 2 too young to tell")


def test_the_longest_batch_counts_three_times():
    assert oldest_removable(Orphans(), 60, NOW) == NOW - timedelta(days=7)
    assert oldest_removable(Orphans(), 4 * 86400, NOW) == NOW - timedelta(days=12)


@pytest.mark.parametrize(
    ("policy", "needs", "last", "intruder", "words", "refused"),
    [
        (Orphans(enabled=False), Needs(), None, "", "switched off", False),
        (Orphans(), Needs(forbidden="refused: x"), None, "", "refused: x", True),
        (Orphans(), Needs(), None, "table a.b keeps files here", "table a.b keeps", True),
        (Orphans(), Needs(refusals=("gc.enabled is false",)), None, "", "gc.enabled", True),
        (Orphans(), Needs(hold_until=NOW + timedelta(hours=1)), None, "", "held by a person", False),
        (Orphans(), Needs(), NOW - timedelta(days=6), "", "checked 6 days ago", False),
    ],
)  # fmt: skip
def test_what_keeps_a_location_from_being_listed(policy, needs, last, intruder, words, refused):
    stop = not_listed_because(policy, needs, last, NOW, intruder)
    assert stop is not None
    assert (words in stop.why, stop.refused) == (True, refused)


def test_a_weekly_schedule_is_never_too_early():
    assert not_listed_because(Orphans(), Needs(), NOW - timedelta(days=7) + timedelta(minutes=30), NOW, "") is None


def test_other_thresholds_are_shown_before_anything_goes():
    mine = rules(Orphans(), HERE)
    row = {"result": "skipped", "before": {"rules": mine}}
    assert shown(mine, [row])
    assert not shown(rules(Orphans(max_files=7), HERE), [row])
    assert not shown(rules(Orphans(), HERE + "2"), [row])
    assert not shown(mine, [row | {"result": "failed"}, {"result": "done", "before": None}])
    assert rules(Orphans(every="1d"), HERE) == mine, "how often is no question of what goes"


def _why(decided: Action | NotPlanned) -> str:
    return decided.why
