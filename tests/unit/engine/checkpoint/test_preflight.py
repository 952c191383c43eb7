"""Each row of the tables of checkpoint damage: what the files look like, and what the driver says of them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.engine.checkpoint import files as checkpoint
from lakeward.engine.checkpoint import layout
from lakeward.engine.checkpoint.preflight import Finding, Verdict, classify
from lakeward.platform.errors import Blocked

QUERY = "1a7e6f0e-0000-4000-8000-000000000001"


def end_of(batch: int) -> str:
    return json.dumps({"flights": {"0": 100 * (batch + 1)}}, separators=(",", ":"))


class Folder:
    """A checkpoint as Spark 4.1 writes it, batches 0 to 4 finished, 5 begun."""

    def __init__(self, root: Path, *, newest: int = 5, committed: int = 4) -> None:
        self.root = root
        for name in ("offsets", "commits"):
            (root / name).mkdir(parents=True)
        (root / "metadata").write_text(json.dumps({"id": QUERY}))
        for batch in range(newest + 1):
            self.offsets(batch)
        for batch in range(committed + 1):
            (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (root / "offsets" / f".{newest}.crc").write_bytes(b"crc")

    def offsets(self, batch: int, end: str | None = None) -> None:
        lines = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}', end or end_of(batch)]
        (self.root / "offsets" / str(batch)).write_text("\n".join(lines))

    def initial(self) -> None:
        (self.root / "sources" / "0").mkdir(parents=True)
        (self.root / "sources" / "0" / "0").write_text('\0v1\n{"flights":{"0":0}}')

    def checksum(self, name: str, content: bytes | None = None) -> None:
        """Write the `.crc` of a file (or of another content) as Hadoop does."""
        file = self.file(name)
        data = file.read_bytes() if content is None else content
        sums = zlib.crc32(data).to_bytes(4, "big")
        file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)

    def file(self, name: str) -> Path:
        return self.root / name

    def continuous(self) -> None:
        """As continuous processing writes it: no metadata with the offsets, no `sources/`."""
        for file in (self.root / "offsets").glob("[0-9]*"):
            file.write_text("\n".join(["v1", "", file.read_text().split("\n")[2]]))

    def judge(self, position: Position | None, *, exact: bool = True, known: str | None = None) -> Verdict:
        found = checkpoint.read(checkpoint.LocalFiles(), str(self.root))
        return classify("flights", found, position, exact=exact, known_query=known)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "flights" / "1")


def landed(batch: int, query: str = QUERY) -> Position:
    return Position(seq=batch + 1, query_id=query, batch=batch, end={"source": end_of(batch)})


def test_a_begun_batch_is_replayed(folder: Folder) -> None:
    assert folder.judge(landed(4)).check() is Finding.REPLAY


def test_a_begun_batch_that_landed_is_replayed_too(folder: Folder) -> None:
    assert folder.judge(landed(5)).check() is Finding.REPLAY


def test_finished_batches_are_clean(tmp_path: Path) -> None:
    assert Folder(tmp_path / "c", newest=4, committed=4).judge(landed(4)).check() is Finding.CLEAN


def test_nothing_at_all_is_fresh(tmp_path: Path) -> None:
    found = checkpoint.read(checkpoint.LocalFiles(), str(tmp_path / "absent"))
    assert classify("flights", found, None, exact=True).check() is Finding.FRESH


def test_a_position_set_by_a_person_starts_from_nothing(tmp_path: Path) -> None:
    found = checkpoint.read(checkpoint.LocalFiles(), str(tmp_path / "absent"))
    imported = Position(seq=3, query_id="", batch=-1, end={"source": end_of(1)})
    assert classify("flights", found, imported, exact=True).check() is Finding.FRESH


def test_newest_commit_deleted_is_replayed(folder: Folder) -> None:
    folder.file("offsets/5").unlink()
    folder.file("commits/4").unlink()
    assert folder.judge(landed(4)).check() is Finding.REPLAY


def test_all_commits_deleted_are_replayed(folder: Folder) -> None:
    for each in folder.file("commits").iterdir():
        each.unlink()
    assert folder.judge(landed(5)).check() is Finding.REPLAY


@pytest.mark.parametrize("cut", ["", "v1\n", 'v1\n{"batchWatermarkMs":0}\n{"flights":{"0":'])
def test_newest_offsets_cut_while_unfinished_names_the_file_to_remove(folder: Folder, cut: str) -> None:
    folder.file("offsets/5").write_text(cut)
    verdict = folder.judge(landed(4))
    assert verdict.finding is Finding.TRUNCATED
    assert "offsets/5" in verdict.why
    assert "remove" in verdict.next


def test_second_newest_offsets_cut_is_never_removed(folder: Folder) -> None:
    folder.file("offsets/4").write_text("")
    verdict = folder.judge(landed(4))
    assert (verdict.finding, "offsets/4" in verdict.why) == (Finding.TRUNCATED, True)
    assert "copy" in verdict.next


def test_second_newest_offsets_deleted(folder: Folder) -> None:
    folder.file("offsets/4").unlink()
    verdict = folder.judge(landed(4))
    assert (verdict.finding, "offsets/4" in verdict.why) == (Finding.TRUNCATED, True)


def test_newest_commit_cut(folder: Folder) -> None:
    folder.file("commits/4").write_text("")
    verdict = folder.judge(landed(4))
    assert (verdict.finding, "commits/4" in verdict.why) == (Finding.TRUNCATED, True)


def test_newest_offsets_deleted_while_its_commit_is_there(tmp_path: Path) -> None:
    made = Folder(tmp_path / "c", newest=5, committed=5)
    made.file("offsets/5").unlink()
    assert made.judge(landed(5)).finding is Finding.TRUNCATED


def test_all_offsets_deleted(folder: Folder) -> None:
    for each in folder.file("offsets").iterdir():
        each.unlink()
    assert folder.judge(landed(4)).finding is Finding.TRUNCATED


def test_metadata_deleted_would_be_a_new_query_without_a_word(folder: Folder) -> None:
    folder.file("metadata").unlink()
    verdict = folder.judge(landed(4))
    assert verdict.finding is Finding.MISSING
    assert QUERY in verdict.next


def test_metadata_cut(folder: Folder) -> None:
    folder.file("metadata").write_text('{"id":')
    assert folder.judge(landed(4)).finding is Finding.TRUNCATED


def test_another_query_s_checkpoint(folder: Folder) -> None:
    folder.file("metadata").write_text(json.dumps({"id": "another"}))
    verdict = folder.judge(landed(4))
    assert verdict.finding is Finding.FOREIGN
    assert "another" in verdict.why
    assert QUERY in verdict.why


def test_whole_checkpoint_deleted(tmp_path: Path) -> None:
    found = checkpoint.read(checkpoint.LocalFiles(), str(tmp_path / "gone"))
    with pytest.raises(Blocked) as raised:
        classify("flights", found, landed(4), exact=True).check()
    assert raised.value.reason == "checkpoint-missing"
    assert "streams recover flights" in raised.value.next


def test_whole_checkpoint_of_a_sink_without_position_deleted(tmp_path: Path) -> None:
    found = checkpoint.read(checkpoint.LocalFiles(), str(tmp_path / "gone"))
    assert classify("alerts", found, None, exact=False, known_query=QUERY).finding is Finding.MISSING


def test_older_copy_restored(tmp_path: Path) -> None:
    verdict = Folder(tmp_path / "c", newest=2, committed=2).judge(landed(4))
    assert verdict.finding is Finding.OLDER
    assert "batch 4" in verdict.why


def test_offsets_and_commits_wiped_but_metadata_kept(folder: Folder) -> None:
    for name in ("offsets", "commits"):
        for each in folder.file(name).iterdir():
            each.unlink()
    assert folder.judge(landed(4)).finding is Finding.OLDER


def test_same_batch_with_other_offsets(folder: Folder) -> None:
    folder.offsets(5, '{"flights":{"0":999}}')
    assert folder.judge(landed(5)).finding is Finding.OLDER


def test_a_checkpoint_ahead_of_its_table(folder: Folder) -> None:
    verdict = folder.judge(landed(2))
    assert verdict.finding is Finding.AHEAD
    assert '"0":300' in verdict.why
    assert '"0":500' in verdict.why


def test_batches_without_rows_do_not_count_as_ahead(folder: Folder) -> None:
    for batch in (3, 4):
        folder.offsets(batch, end_of(2))
    assert folder.judge(landed(2)).check() is Finding.REPLAY


def test_finished_batches_without_a_position(folder: Folder) -> None:
    assert folder.judge(None).finding is Finding.NO_POSITION


def test_a_first_batch_that_never_landed_may_run_again(tmp_path: Path) -> None:
    made = Folder(tmp_path / "c", newest=0, committed=-1)
    made.initial()
    assert made.judge(None).check() is Finding.REPLAY


@pytest.mark.parametrize("cut", [None, "", "\0v1", '\0v1\n{"flights":'])
def test_a_first_batch_whose_beginning_is_lost_would_begin_at_the_newest_records(
    tmp_path: Path, cut: str | None
) -> None:
    made = Folder(tmp_path / "c", newest=0, committed=-1)
    made.initial()
    made.file("sources/0/0").unlink()
    if cut is not None:
        made.file("sources/0/0").write_text(cut)
    verdict = made.judge(None)
    assert (verdict.finding, "sources/0/0" in verdict.why) == (Finding.TRUNCATED, True)
    assert f"remove the folder {made.root}" in verdict.next


def test_the_beginning_is_not_needed_once_batch_0_is_finished(tmp_path: Path) -> None:
    assert Folder(tmp_path / "c", newest=0, committed=0).judge(landed(0)).check() is Finding.CLEAN


@pytest.mark.parametrize("name", ["metadata", "offsets/5", "offsets/4", "commits/4"])
def test_a_file_whose_checksum_does_not_fit(folder: Folder, name: str) -> None:
    for each in ("metadata", "offsets/5", "offsets/4", "commits/4"):
        folder.checksum(each)
    assert folder.judge(landed(4)).check() is Finding.REPLAY
    file = folder.file(name)
    folder.checksum(name, file.read_bytes().replace(b"1", b"2").replace(b"0", b"9"))
    verdict = folder.judge(landed(4))
    assert (verdict.finding, f"{folder.root}/{name}: its checksum" in verdict.why) == (Finding.TRUNCATED, True)
    assert f".{file.name}.crc" in verdict.next


def test_what_is_no_checksum_file_is_ignored_as_hadoop_does(folder: Folder) -> None:
    (folder.root / ".metadata.crc").write_bytes(b"something else")
    assert folder.judge(landed(4)).check() is Finding.REPLAY


def test_a_long_file_has_a_checksum_a_block(tmp_path: Path) -> None:
    content = b"x" * 1300
    sums = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in (content[:512], content[512:1024], content[1024:]))
    assert layout.fits(content, b"crc\0" + (512).to_bytes(4, "big") + sums)
    assert not layout.fits(content[:-1] + b"y", b"crc\0" + (512).to_bytes(4, "big") + sums)


@pytest.mark.parametrize(("name", "version"), [("offsets/5", "v2"), ("commits/4", "v3"), ("offsets/5", "v17")])
def test_a_checkpoint_of_a_newer_spark(folder: Folder, name: str, version: str) -> None:
    file = folder.file(name)
    file.write_text(version + "\n{}\nsomething nobody knows yet")
    verdict = folder.judge(landed(4))
    assert verdict.finding is Finding.NEWER
    assert f"{name} has version {version}" in verdict.why


def test_offsets_missing_in_the_middle_are_noticed_and_not_needed(folder: Folder) -> None:
    folder.file("offsets/2").unlink()
    assert folder.judge(landed(4)).check() is Finding.REPLAY
    assert checkpoint.read(checkpoint.LocalFiles(), str(folder.root)).missing == [2]


def test_the_batch_that_was_begun_is_named_with_its_offsets(folder: Folder) -> None:
    files = checkpoint.LocalFiles()
    assert checkpoint.unfinished(files, str(folder.root), ["source"]) == (
        5, {"source": {"start": end_of(4), "end": end_of(5)}},
    )  # fmt: skip
    (folder.root / "commits" / "5").write_text("v1\n{}")
    assert checkpoint.unfinished(files, str(folder.root), ["source"]) is None


def test_a_checkpoint_of_continuous_processing_can_be_read_from_its_first_epoch_on(tmp_path: Path) -> None:
    later = Folder(tmp_path / "later", newest=5, committed=5)
    later.continuous()
    assert later.judge(None, exact=False).finding is Finding.CLEAN
    first = Folder(tmp_path / "first", newest=0, committed=-1)
    assert first.judge(None, exact=False).finding is Finding.TRUNCATED
    first.continuous()
    assert first.judge(None, exact=False).finding is Finding.REPLAY
