"""A folder of batches: whole or not there, one of each, and nobody else's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.folder import store
from lakeward.platform.errors import Blocked, SpecError


def at(seq: int) -> Position:
    return Position(seq=seq, query_id="q", batch=seq - 1, end={"source": f'{{"t":{{"0":{seq}}}}}'})


def put(path: Path, seq: int, stream: str = "flights", text: str = "rows") -> None:
    staged = path / store.STAGING / f"{seq}-{text}"
    staged.mkdir(parents=True)
    (staged / "part-0.json").write_text(text)
    store.publish(staged, path, stream, at(seq))


def test_the_newest_batch_says_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert store.newest(path, "flights") is None
    store.prepare(path, "flights")
    assert store.newest(path, "flights") is None
    for seq in (1, 2, 10):
        put(path, seq)
    assert store.newest(path, "flights") == at(10)
    store.prepare(path, "flights")


def test_of_two_that_publish_one_seq_one_gets_an_error(tmp_path: Path) -> None:
    put(tmp_path, 1, text="first")
    with pytest.raises(store.Taken):
        put(tmp_path, 1, text="second")
    assert (store.folder_of(tmp_path, 1) / "part-0.json").read_text() == "first"


def test_a_folder_of_another_stream_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path, 1, stream="alerts")
    with pytest.raises(Blocked, match="belongs to stream alerts"):
        store.newest(tmp_path, "flights")


def test_a_batch_without_its_position_is_no_batch_to_go_on_from(tmp_path: Path) -> None:
    put(tmp_path, 1)
    manifest = store.folder_of(tmp_path, 1) / store.MANIFEST
    manifest.write_text("flights\n{}")
    with pytest.raises(Blocked, match="cannot be read"):
        store.newest(tmp_path, "flights")
    manifest.unlink()
    with pytest.raises(Blocked, match="has no file"):
        store.newest(tmp_path, "flights")


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(SpecError, match="contains foreign files"):
        store.prepare(tmp_path, "flights")
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="Cannot write to folder"):
        store.prepare(tmp_path / "file" / "out", "flights")


def test_what_died_half_way_long_ago_is_removed_and_nothing_younger(tmp_path: Path) -> None:
    old, young = (tmp_path / store.STAGING / name for name in ("1-old", "1-young"))
    for each in (old, young):
        each.mkdir(parents=True)
    long_ago = time.time() - 2 * 86_400
    os.utime(old, (long_ago, long_ago))
    store.prepare(tmp_path, "flights")
    assert (old.exists(), young.exists()) == (False, True)


def test_a_position_that_cannot_be_read_is_looked_for_in_the_file(tmp_path: Path) -> None:
    put(tmp_path, 1)
    (store.folder_of(tmp_path, 1) / store.MANIFEST).write_text("flights\n{")
    with pytest.raises(Blocked) as blocked:
        store.newest(tmp_path, "flights")
    assert "the file with the position" in blocked.value.why and "metadata file" not in blocked.value.next


@pytest.mark.parametrize("log", ["metadata/00000-a.metadata.json", "_delta_log/0.json"])
def test_a_folder_inside_a_table_is_refused(tmp_path: Path, log: str) -> None:
    """Removal of orphans and VACUUM would delete its batches."""
    file = tmp_path / "nyc" / "flights" / log
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "nyc")
    for path in ("nyc/flights", "nyc/flights/data/out", "link/flights/out"):
        with pytest.raises(SpecError, match="inside a table of the lake") as refused:
            store.prepare(tmp_path / path, "s")
        assert str(tmp_path / "nyc" / "flights") in str(refused.value)
    store.prepare(tmp_path / "nyc" / "exports", "s")
