"""Offsets in words, whatever form the registry has them in."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.quality.results.offsets import between


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ({"f": '{"f":{"0":7,"1":2}}'}, {"f": '{"f":{"0":9,"1":2}}'}, "f/0 7 to 9, f/1 2 to 2"),
        ({"a": {"t": {"0": 1}}}, {"a": {"t": {"0": 5}}}, "a/t/0 1 to 5"),
        ({"source": {"t": {"0": 1}}}, {"source": '{"t":{"0":5}}'}, "t/0 1 to 5"),
        ({"t-0": 10}, {"t-0": 20}, "t-0 10 to 20"),
        (None, {"t": {"0": 5}}, "null to {t: {0: 5}}"),
        ({"t": {"0": 1}}, {"t": {"0": 5, "1": 3}}, "t/0 1 to 5, t/1 its beginning to 3"),
        ({"files": "part-1"}, {"files": "part-2"}, "{files: part-1} to {files: part-2}"),
        ({}, {}, "{} to {}"),
        (
            {"t": {str(n): n for n in range(9)}},
            {"t": {str(n): n + 1 for n in range(9)}},
            "t/0 0 to 1, t/1 1 to 2, t/2 2 to 3, t/3 3 to 4, t/4 4 to 5, t/5 5 to 6 and 3 more partitions",
        ),
    ],
)
def test_offsets_are_told_by_partition(start: Any, end: Any, words: str) -> None:
    assert between(start, end) == words
