from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.supervision.attribution import Attribution, _planned


@pytest.mark.parametrize(
    ("lines", "sources", "end"),
    [
        (['{"flights":{"1":5,"0":100}}'], ["source"], {"source": '{"flights":{"0":100,"1":5}}'}),
        (["17"], ["ticks"], {"ticks": "17"}),
        (['{"a":1}', '{"b":2}'], ["one", "two"], None),  # the file names no sources
    ],
)
def test_the_end_of_a_batch_is_read_from_what_spark_wrote_before_it(tmp_path: Path, lines, sources, end) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "42").write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))
    assert _planned(f"file://{tmp_path}", 42, sources) == end


def test_a_checkpoint_that_cannot_be_read_from_here_says_nothing() -> None:
    assert _planned("s3a://bucket/checkpoints/flights", 42, ["source"]) is None


def test_the_suspects_are_those_it_died_with_most_often() -> None:
    assert Attribution({"a": 1, "b": 3}).suspects == ["b"]
    assert Attribution({"a": 3, "b": 3}).suspects == ["a", "b"]
    assert (Attribution({}).worst, Attribution({}).suspects) == (0, [])
