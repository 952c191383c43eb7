"""What a moved position counts as skipped: pure arithmetic over offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.connectors.commit_protocol.position import Position
from lakeward.operations import reset_target
from lakeward.operations.sink_position import skipped
from lakeward.spec.model.stream import StreamSpec

OFFSETS = st.dictionaries(st.sampled_from(["0", "1", "2"]), st.integers(0, 30), min_size=3, max_size=3)


def text(parts: dict[str, int]) -> dict[str, str]:
    return {"source": json.dumps({"t": parts})}


@given(start=OFFSETS, moves=st.lists(OFFSETS, min_size=1, max_size=5))
def test_skips_are_what_was_jumped_over_and_never_gone_back_to(
    start: dict[str, int], moves: list[dict[str, int]]
) -> None:
    """Against a set of offsets: a jump forward adds what lies between, a jump back takes out what is read again."""
    position = Position(seq=1, query_id="", batch=-1, end=text(start))
    at, given_up = dict(start), set()
    for move in moves:
        skips, number = skipped(position, text(move))
        for part, to in move.items():
            given_up |= {(part, offset) for offset in range(at[part], to)}
            given_up -= {(part, offset) for offset in range(to, 31)}
        at = dict(move)
        position = position.model_copy(update={"end": text(move), "skips": skips})
        held = [
            (part, offset)
            for skip in skips
            for part, until in json.loads(skip.end["source"])["t"].items()
            for offset in range(json.loads(skip.start["source"])["t"][part], until)
        ]
        assert sorted(held) == sorted(given_up)
        assert number == len(given_up)


@pytest.mark.parametrize("document", [{"flights": {"0": 5}}, {"flights": {"flights": {"0": 5}}}])
def test_a_file_may_name_the_source_or_not_also_where_both_are_called_alike(
    tmp_path: Path, document: dict[str, object]
) -> None:
    kafka = {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 10}}
    spec = StreamSpec.model_validate(
        {
            "id": "s",
            "owner": "ops",
            "sources": {"flights": kafka},
            "transform": {"sql": "SELECT * FROM flights"},
            "sink": {"iceberg": {"table": "nyc.flights"}},
        }
    )
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(document))
    assert reset_target._file(str(file), spec) == {"flights": {"flights": {0: 5}}}
