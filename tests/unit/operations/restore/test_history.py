"""Where a stream stood at an earlier snapshot, from snapshots and recorded batches."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_rows import batch

from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.operations.restore.history import (
    NotYetRecorded,
    Unknown,
    batches_after,
    chain,
    earlier_state,
    wholly_after,
)
from lakeward.registry.batches import Batch

S = "s"


def link(snapshot: int, parent: int | None, seq: int | None = None, stream: str = S, added: int = 0) -> Link:
    attempt = None if seq is None else f"{stream}/{seq}/x"
    return Link(snapshot, snapshot, parent, attempt=attempt, added=added)


def row(seq: int, start: int, end: int, **more: Any) -> Batch:
    whole = {
        "seq": seq, "snapshot_id": seq * 10, "start_offsets": {"a": at(start)}, "end_offsets": {"a": at(end)},
        "consumed": end - start, "landed": end - start - 1, "quarantined": 1, "filtered": 0, "skipped": None,
    }  # fmt: skip
    return batch(**{**whole, **more})


def at(offset: int, **more: int) -> str:
    parts = {"0": offset} | {name.removeprefix("p"): number for name, number in more.items()}
    return '{"t":{' + ",".join(f'"{part}":{number}' for part, number in parts.items()) + "}}"


LINKS = {each.snapshot: each for each in [
    link(10, None, 1), link(20, 10, 2), link(25, 20), link(30, 25, 3), link(35, 30, 1, "other"), link(40, 35, 4)
]}  # fmt: skip
HERE = Position(
    seq=4, query_id="q", batch=3, end={"a": at(40)}, begin={"a": at(0)}, snapshot=40, snapshot_seq=40,
    totals=Totals(consumed=40, landed=36, quarantined=4),
)  # fmt: skip
ROWS = [row(3, 20, 30), row(4, 30, 40)]


def gone(position: Position = HERE, to: int = 20) -> list[Link]:
    return batches_after(S, position, LINKS[to], LINKS.get)


def test_it_stood_where_the_first_batch_that_goes_began() -> None:
    assert [each.snapshot for each in gone()] == [40, 30]
    found = earlier_state(S, HERE, gone(), ROWS)
    assert (found.end, found.removed) == ({"a": at(20)}, (40, 30))
    assert found.totals == Totals(consumed=20, landed=18, quarantined=2)


def test_the_history_below_the_target_is_not_read() -> None:
    """A Delta log has a file for each of weeks of commits."""
    seen: list[int] = []

    def look_up(snapshot: int) -> Link | None:
        seen.append(snapshot)
        return LINKS.get(snapshot)

    assert [each.snapshot for each in chain(40, look_up, until=20)] == [40, 35, 30, 25, 20]
    assert batches_after(S, HERE, LINKS[20], look_up) == gone()
    assert 10 not in seen


def test_a_head_on_another_line_is_followed_down_to_where_they_part() -> None:
    links = {**LINKS, 60: link(60, 10, 3), 50: link(50, 10, 2)}
    on_another = HERE.model_copy(update={"snapshot": 60, "snapshot_seq": 60})
    assert [each.snapshot for each in batches_after(S, on_another, links[50], links.get)] == [60]


def test_nothing_of_it_goes_where_its_last_batch_stays() -> None:
    assert gone(HERE.model_copy(update={"snapshot": 20, "snapshot_seq": 20})) == []
    cut = {name: each for name, each in LINKS.items() if name != 10}
    below = HERE.model_copy(update={"snapshot": 7, "snapshot_seq": 7})
    assert batches_after(S, below, LINKS[20], cut.get) == [], "expired below it"
    moved = HERE.model_copy(update={"snapshot": 25, "snapshot_seq": 25})  # while a later one was the head
    assert gone(moved) == []
    assert earlier_state(S, moved, [], []).end == HERE.end


def test_a_batch_that_was_found_landed_already_is_counted_by_its_snapshot() -> None:
    links = {**LINKS, 40: link(40, 35, 4, added=9)}
    found = earlier_state(
        S, HERE, batches_after(S, HERE, links[20], links.get), [ROWS[0], row(4, 30, 40, landed=None, filtered=None)]
    )
    assert found.totals == Totals(consumed=20, landed=18, quarantined=2)


def test_a_batch_that_was_given_up_is_read_again_with_the_others() -> None:
    skip = row(5, 40, 45, snapshot_id=None, skipped=5, consumed=0, landed=0, quarantined=0)
    off_main = row(6, 2, 9)  # of before an earlier restore
    there = HERE.model_copy(update={"seq": 5, "end": {"a": at(45)}})
    assert earlier_state(S, there, gone(), [*ROWS, skip, off_main]).end == {"a": at(20)}


def test_a_partition_that_came_meanwhile_is_no_break() -> None:
    rows = [ROWS[0], row(4, 30, 40, start_offsets={"a": at(30, p1=0)}, end_offsets={"a": at(40, p1=5)})]
    there = HERE.model_copy(update={"end": {"a": at(40, p1=5)}})
    assert earlier_state(S, there, gone(), rows).end == {"a": at(20)}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([ROWS[0]], "the registry has no record of its batch seq 4"),
        ([ROWS[0], row(4, 31, 40)], "moved before seq 4: a t/0: records 30 to 30 would be skipped"),
        ([ROWS[0], row(4, 30, 39)], "moved after its last batch"),
    ],
)
def test_a_record_that_is_not_whole_is_not_believed(rows: list[Batch], why: str) -> None:
    with pytest.raises(Unknown, match=why):
        earlier_state(S, HERE, gone(), rows)


def test_a_look_at_a_running_stream_does_without_the_newest_batches() -> None:
    links = {**LINKS, 40: link(40, 35, 4, added=9)}
    newer = batches_after(S, HERE, links[20], links.get)
    found = earlier_state(S, HERE, newer, ROWS[:1], settled=False)
    assert (found.end, found.totals.landed) == ({"a": at(20)}, 18)
    with pytest.raises(NotYetRecorded):
        earlier_state(S, HERE, newer, ROWS[:1])
    with pytest.raises(Unknown, match="seq 3") as gap:
        earlier_state(S, HERE, newer, ROWS[1:], settled=False)
    assert not isinstance(gap.value, NotYetRecorded), "a hole is never filled"
    with pytest.raises(NotYetRecorded):
        earlier_state(S, HERE, newer, [], settled=False)


def test_what_expired_between_leaves_it_unknown() -> None:
    links = {name: each for name, each in LINKS.items() if name != 30}
    with pytest.raises(Unknown, match="have expired"):
        batches_after(S, HERE, LINKS[20], links.get)
    assert [each.snapshot for each in chain(40, links.get)] == [40, 35]


def test_a_backfill_is_taken_out_whole_or_not_at_all() -> None:
    wholly_after("other", LINKS[20], LINKS.get)
    with pytest.raises(Unknown, match="it landed partly before"):
        wholly_after("other", LINKS[40], LINKS.get)
