"""What a table says of replays."""

from __future__ import annotations

import pytest

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.replay import Replay, Replayed, key, of
from lakeward.connectors.iceberg.replay import _only_advanced
from lakeward.platform.errors import Blocked


def test_it_is_written_and_read_as_one_text() -> None:
    made = Replay(seq=2, token="s/replay-2/ab", published=False, totals=Replayed(landed=3, filtered=1), generation=4)
    assert of({key("s"): made.to_json()}, "s", "a.t") == made
    assert of({}, "s", "a.t") == Replay()
    assert position.streams_of([key("s")]) == [], "it is no position"


def test_only_a_published_act_counts() -> None:
    begun = Replay(seq=1, token="s/replay-1/ab", published=False)
    assert (begun.done, begun.model_copy(update={"published": True}).done) == (None, "s/replay-1/ab")
    assert Replay().done is None


def test_somebody_elses_text_blocks() -> None:
    with pytest.raises(Blocked, match="cannot be read") as blocked:
        of({key("s"): "{}x"}, "s", "a.t")
    assert blocked.value.reason == "replay-unreadable"


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (("q", "s/4/a"), ("q", "s/9/b"), True),  # its own batches
        (("q", "s/4/a"), ("", "reset/5/me"), False),
        (("q", "s/4/a"), ("q2", "s/9/b"), False),  # reset, and started again meanwhile
        (("", "reset/5/me"), ("", "reset/5/me"), True),
        (("", "reset/5/me"), ("", "reset/6/me"), False),
    ],
)
def test_what_a_stream_has_passed_it_reads_again_after_a_reset(
    before: tuple[str, str], after: tuple[str, str], passed: bool
) -> None:
    one, other = (Position(seq=1, query_id=q, batch=0, end={}, attempt=a) for q, a in (before, after))
    assert _only_advanced(one, other) is passed
    assert not _only_advanced(None, other)
