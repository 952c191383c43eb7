"""A checkpoint that is sound, and still not this stream's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint import compatibility, conflicts
from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint.compatibility import Query, SourceNow
from lakeward.engine.checkpoint.layout import Checkpoint, Entry
from lakeward.engine.checkpoint.preflight import Finding, Verdict

FLIGHTS, WEATHER = SourceNow("flights", frozenset({"flights"})), SourceNow("weather", frozenset({"weather"}))
CONF = {
    "spark.sql.shuffle.partitions": "4",
    compatibility.PROVIDER: "RocksDB",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
}


def end(topic: str, offset: int) -> str:
    return json.dumps({topic: {"0": offset}}, separators=(",", ":"))


def kept(*ends: str, **more: Any) -> Checkpoint:
    entries = {number: Entry(ends=ends, conf=CONF) for number in (0, 1)}
    return Checkpoint("/ck", "q", entries, {0: Entry(), 1: Entry()}, **more)


def test_the_same_sources_in_the_same_order_fit() -> None:
    made = kept(end("flights", 5), end("weather", 2))
    assert compatibility.judge("s", made, None, Query([FLIGHTS, WEATHER], stateful=False)) is None


def test_sources_in_another_order_would_go_on_at_each_others_offsets() -> None:
    verdict = compatibility.judge(
        "s", kept(end("flights", 5), end("weather", 2)), None, Query([WEATHER, FLIGHTS], False)
    )
    assert verdict is not None
    assert verdict.finding is Finding.SOURCES
    assert "line 1 of /ck/offsets/1 belongs to source flights" in verdict.why
    assert "conf/streams/s.yaml" in verdict.next


@pytest.mark.parametrize("sources", [[FLIGHTS], [FLIGHTS, WEATHER, SourceNow("more")]])
def test_a_source_removed_or_added(sources: list[SourceNow]) -> None:
    verdict = compatibility.judge("s", kept(end("flights", 5), end("weather", 2)), None, Query(sources, False))
    assert verdict is not None
    assert verdict.finding is Finding.SOURCES
    assert f"offsets of 2 sources, the spec has {len(sources)}" in verdict.why


def test_a_topic_taken_from_a_source() -> None:
    verdict = compatibility.judge("s", kept(end("old", 5)), None, Query([FLIGHTS], False))
    assert verdict is not None
    assert "no longer reads old" in verdict.why


def test_a_topic_added_to_a_source_is_said() -> None:
    query = Query([SourceNow("source", frozenset({"flights", "more"}))], False)
    assert compatibility.judge("s", kept(end("flights", 5)), None, query) is None
    assert compatibility.notes(kept(end("flights", 5)), query, {}) == [
        "source source reads more from the beginning: the checkpoint does not know it"
    ]


def test_a_source_without_data_yet_or_with_a_pattern_is_not_judged_by_topics() -> None:
    assert compatibility.judge("s", kept("-"), None, Query([FLIGHTS], False)) is None
    assert compatibility.judge("s", kept(end("any", 1)), None, Query([SourceNow("source")], False)) is None
    assert compatibility.notes(kept("-"), Query([FLIGHTS], False), {}) == []


def test_a_source_under_another_name_is_another_for_the_table() -> None:
    position = Position(seq=3, query_id="q", batch=1, end={"old_name": end("flights", 5)})
    verdict = compatibility.judge("s", kept(end("flights", 5)), position, Query([FLIGHTS], False))
    assert verdict is not None
    assert "sources old_name; the spec has flights" in verdict.why


def test_options_the_checkpoint_has_frozen_are_said() -> None:
    wanted = {
        "spark.sql.shuffle.partitions": "8",
        compatibility.PROVIDER: "HDFS",
        "spark.sql.streaming.multipleWatermarkPolicy": "min",
    }
    said = compatibility.notes(kept(end("flights", 5)), Query([FLIGHTS], True), wanted)
    assert "spark.sql.shuffle.partitions stays 4: the checkpoint has frozen it; 8 takes effect after reset" in said
    assert (
        f"{compatibility.PROVIDER} stays RocksDB: the checkpoint has frozen it; HDFS takes effect after reset" in said
    )
    assert len(said) == 2
    assert compatibility.notes(kept(end("flights", 5)), Query([FLIGHTS], False), wanted) == [], (
        "without state they change freely"
    )
    assert compatibility.notes(Checkpoint("/ck"), Query([FLIGHTS], True), wanted) == []


def test_offsets_missing_in_the_middle_are_said() -> None:
    made = Checkpoint("/ck", "q", {0: Entry(), 2: Entry(), 3: Entry(ends=("-",))}, {3: Entry()})
    assert ["/ck/offsets lacks 1" in note for note in compatibility.notes(made, Query([FLIGHTS], False), {})] == [True]


class State:
    """The state of one operator on two partitions, versions 1 to 5, a snapshot at 3: batches 0 to 4 are finished."""

    def __init__(self, root: Path, suffix: str = "changelog", joined: bool = False) -> None:
        self.root, self.suffix = root, suffix
        for name in ("offsets", "commits"):
            (root / name).mkdir(parents=True)
        (root / "metadata").write_text('{"id":"q"}')
        for batch in range(5):
            text = ["v1", json.dumps({"conf": {"spark.sql.shuffle.partitions": "2"}}), end("flights", batch)]
            (root / "offsets" / str(batch)).write_text("\n".join(text))
            (root / "commits" / str(batch)).write_text("v1\n{}")
        for partition in range(2):
            for store in ("left-keyToNumValues", "right-keyToNumValues") if joined else ("",):
                folder = root / "state" / "0" / str(partition) / store
                folder.mkdir(parents=True)
                for version in range(1, 6):
                    (folder / f"{version}.{suffix}").touch()
                (folder / f"3.{'zip' if suffix == 'changelog' else 'snapshot'}").touch()
        metadata = root / "state" / "0" / "_metadata"
        metadata.mkdir()
        info = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [{"storeName": "default", "numPartitions": 2}]}
        (metadata / "metadata").write_text("v1\n" + json.dumps(info))

    def judge(self, *, stateful: bool = True) -> Any:
        read = checkpoint.read(checkpoint.LocalFiles(), str(self.root))
        return compatibility.judge("s", read, None, Query([FLIGHTS], stateful))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("suffix", ["changelog", "delta"])
def test_whole_state_fits(tmp_path: Path, suffix: str, joined: bool) -> None:
    assert State(tmp_path / "c", suffix, joined).judge() is None


def test_a_state_whose_old_changes_were_cleaned_fits(tmp_path: Path) -> None:
    made = State(tmp_path / "c")
    for version in (1, 2, 3):
        (made.root / f"state/0/1/{version}.changelog").unlink()
    assert made.judge() is None


def test_state_without_its_newest_version(tmp_path: Path) -> None:
    made = State(tmp_path / "c")
    (made.root / "state/0/1/5.changelog").unlink()
    verdict = made.judge()
    assert verdict.finding is Finding.STATE
    assert f"{made.root}/state/0/1: batch 5 needs version 5; its files hold versions up to 4" in verdict.why
    assert "one copy" in verdict.next


def test_state_with_a_hole(tmp_path: Path) -> None:
    made = State(tmp_path / "c")
    (made.root / "state/0/0/4.changelog").unlink()
    assert "not all versions before it" in made.judge().why


def test_state_without_a_partition(tmp_path: Path) -> None:
    made = State(tmp_path / "c")
    for file in (made.root / "state/0/1").iterdir():
        file.unlink()
    assert "its files hold versions up to 0" in made.judge().why
    (made.root / "state/0/1").rmdir()
    assert f"{made.root}/state/0/1: it is missing" in made.judge().why


def test_state_that_is_gone_or_not_wanted_any_more(tmp_path: Path) -> None:
    made = State(tmp_path / "c")
    verdict = made.judge(stateful=False)
    assert verdict.finding is Finding.SHAPE
    assert "would never land" in verdict.why
    verdict = compatibility.judge("s", kept(end("flights", 5)), None, Query([FLIGHTS], True))
    assert verdict is not None
    assert verdict.finding is Finding.SHAPE
    assert "begin at zero" in verdict.why


def test_two_streams_on_one_checkpoint() -> None:
    others = {"s": "/ck/1", "t": "file:///ck/1/", "u": "/ck/2"}
    verdict = conflicts.sharing("s", "/ck/1", others)
    assert verdict is not None
    assert (verdict.finding, "Streams s and t" in verdict.what) == (Finding.SHARED, True)
    assert conflicts.sharing("u", "/ck/2", others) is None


def test_a_checkpoint_inside_the_tables_folder() -> None:
    assert conflicts.nested("s", "/w/ns/t2/ck", "ns.t", "/w/ns/t") is None
    verdict = conflicts.nested("s", "/w/ns/t/ck", "ns.t", "file:///w/ns/t/")
    assert verdict is not None
    assert verdict.finding is Finding.NESTED
    assert "/w/ns/t/ck is below file:///w/ns/t/" in verdict.why
    for folder, location in (("/w/ns/t/ck", "file:/w/ns/t"), ("s3a://b/w/t/ck", "s3://b/w/t"), ("/w/t", "/w/t")):
        assert conflicts.nested("s", folder, "ns.t", location) is not None, (folder, location)


def test_a_table_inside_the_checkpoints_folder() -> None:
    assert conflicts.nested("s", "/ck/s", "ns.t", "/ck/s2/t") is None
    verdict = conflicts.nested("s", "file:///ck/s", "ns.t", "/ck/s/state/t")
    assert verdict is not None
    assert (verdict.finding, verdict.what) == (Finding.NESTED, "Table ns.t is inside the checkpoint of stream s")
    assert "removing the checkpoint would remove the table" in verdict.why


def test_a_stream_under_a_new_id() -> None:
    landed = {"old": Position(seq=9, query_id="q", batch=8, end={}, topic_ids={"flights": "id-1"})}
    fresh, ids = Checkpoint("/ck"), {"flights": "id-1"}

    def renamed(checkpoint: Checkpoint, declared: dict[str, str], ids: dict[str, str]) -> Verdict | None:
        return conflicts.renamed("new", checkpoint, "ns.t", landed, declared, ids, lambda name: f": forget {name}")

    verdict = renamed(fresh, {"new": "/ck"}, ids)
    assert verdict is not None
    assert verdict.finding is Finding.RENAMED
    assert "landed by stream old" in verdict.what
    assert verdict.next.endswith("then: lakeward deploy --retire new; or if both are meant: forget old")
    assert renamed(fresh, {"new": "", "old": ""}, ids) is None, "another stream"
    assert renamed(fresh, {"new": ""}, {"flights": "id-2"}) is None, "another topic"
    assert renamed(kept(end("flights", 1)), {}, ids) is None, "it has begun already"


def test_batches_do_not_go_on_from_continuous_processing() -> None:
    passed = Checkpoint("/ck", "q", {3: Entry(ends=(end("flights", 5),), continuous=True)}, {3: Entry()})
    verdict = compatibility.judge("s", passed, None, Query([FLIGHTS], stateful=False))
    assert verdict is not None
    assert verdict.finding is Finding.SHAPE
    assert "trigger: {continuous: 1s}" in verdict.next
    assert compatibility.judge("s", passed, None, Query([FLIGHTS], stateful=False, continuous=True)) is None
    assert (
        compatibility.judge("s", kept(end("flights", 5)), None, Query([FLIGHTS], stateful=False, continuous=True))
        is None
    )
