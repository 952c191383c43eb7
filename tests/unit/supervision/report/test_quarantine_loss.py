"""Rejected records that are in no table: which ones, and what the block says of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from recorded_rows import batch

from lakeward.supervision.report import quarantine_loss, safety
from lakeward.supervision.report.quarantine_loss import QuarantineState
from lakeward.supervision.report.safety import Lost

REGISTER = "lakeward sql --write \"CALL lake.system.register_table(table => 'a.q', metadata_file => '/m.json')\"   " + (
    "restores it with all its rows; then: lakeward streams start flights"
)
GONE = QuarantineState("a.q", True, 2, ("flights/0: 7", "1 of flights/0: 2 to 4"), REGISTER)


def rejecting(low: int, high: int, quarantined: int):
    def at(offset: int) -> dict[str, str]:
        return {"source": json.dumps({"flights": {"0": offset}})}

    return batch(start_offsets=at(low), end_offsets=at(high), quarantined=quarantined)


def losses(batches, there: list[int]) -> list[str]:
    found = quarantine_loss._losses(batches, {("flights", 0): there})
    return [quarantine_loss.in_words(spans, lost) for spans, lost in found]


def test_a_batch_whose_records_are_all_there_lost_nothing() -> None:
    assert losses([rejecting(5, 10, 2)], [1, 5, 9, 10]) == []


def test_a_batch_is_named_by_its_offsets_and_the_number_that_is_lost() -> None:
    assert losses([rejecting(5, 10, 2), rejecting(4, 5, 1), rejecting(0, 4, 4)], [9]) == [
        "1 of flights/0: 5 to 9",
        "flights/0: 4",
        "flights/0: 0 to 3",
    ]


def test_a_batch_that_landed_again_after_a_reset_is_compared_once() -> None:
    twice = [rejecting(5, 10, 1), rejecting(0, 10, 2), rejecting(0, 5, 1)]
    assert losses(twice, []) == ["1 of flights/0: 5 to 9", "1 of flights/0: 0 to 4"]


def test_a_first_batch_without_a_start_begins_at_the_first_record() -> None:
    first = replace(rejecting(0, 3, 1), start_offsets={"source": "-"})
    assert losses([first], []) == ["1 of flights/0: 0 to 2"]


def test_many_batches_are_counted() -> None:
    many = QuarantineState("a.q", records=12, where=tuple(f"t/0: {n}" for n in range(12)))
    assert many.text == (
        "12 rejected records (t/0: 0; t/0: 1; t/0: 2; t/0: 3; t/0: 4; t/0: 5; t/0: 6; t/0: 7 and 4 more batches) are "
        "in no table: quarantine table a.q was dropped, or rows were deleted from it"
    )


@pytest.mark.parametrize("scene", ["healthy", "lagging"])
def test_a_stream_that_runs_says_what_is_lost_and_how_it_comes_back(scenes, scene: str) -> None:
    made = scenes[scene]
    seen = made.changed(sources=replace(made.sources, quarantine=GONE))
    answer = safety.lost(seen.material())
    assert answer.lost is Lost.YES
    assert answer.text.startswith(
        "2 rejected records (flights/0: 7; 1 of flights/0: 2 to 4) are in no table: quarantine table a.q does not exist"
    )
    assert "every other record" in answer.text
    assert seen.document()["next_text"] == REGISTER


def test_a_loss_that_was_accepted_is_still_said_and_nothing_is_to_be_done(scenes) -> None:
    made = scenes["healthy"]
    accepted = made.changed(sources=replace(made.sources, quarantine=replace(GONE, missing=False, next="")))
    assert safety.lost(accepted.material()).lost is Lost.YES
    assert accepted.document()["next_text"] == made.document()["next_text"]


def test_a_blocked_stream_starts_once_the_table_is_there(scenes) -> None:
    made = scenes["lost_checkpoint"]
    blocked = {"reason": "quarantine-missing", "what": "w", "why": "2 rejected records", "next": REGISTER}
    missing = made.changed(
        stream=replace(made.stream, blocked=dict(made.stream.blocked or {}) | blocked),
        sources=replace(made.sources, quarantine=GONE),
    )
    assert safety.lost(missing.material()).text == GONE.text
    assert missing.document()["next"] == REGISTER
    there = missing.changed(sources=replace(missing.sources, quarantine=QuarantineState("a.q")))
    assert safety.lost(there.material()).lost is Lost.NO
    assert there.document()["next"] == "lakeward streams start flights"
    unread = missing.changed(sources=replace(missing.sources, quarantine=None))
    assert safety.lost(unread.material()).lost is Lost.YES
    assert unread.document()["next"] == REGISTER
