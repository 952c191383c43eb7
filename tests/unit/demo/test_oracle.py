from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeward.demo.broker import Message, Position
from lakeward.demo.oracle import (
    BatchRange,
    WindowRow,
    account,
    compare_windows,
    contiguous,
    decode,
    events_of,
    freshness,
    p99,
)
from lakeward.demo.windows import Event, recompute

HOUR = 3_600_000


def positions(*offsets: int, partition: int = 0) -> list[Position]:
    return [Position(partition, offset) for offset in offsets]


def test_all_landed_or_quarantined_once_is_exact() -> None:
    found = account(positions(0, 1, 2), positions(0, 2), positions(1))
    assert found.exact
    assert (found.produced, found.landed, found.quarantined) == (3, 2, 1)


@pytest.mark.parametrize(
    ("landed", "kept", "missing", "duplicates", "foreign"),
    [
        (positions(0, 2), [], 1, 0, 0),
        (positions(0, 1, 1, 1, 2), [], 0, 2, 0),
        (positions(0, 1, 2), positions(2), 0, 1, 0),
        (positions(0, 1, 2, 3), [], 0, 0, 1),
        ([*positions(0, 1), Position(1, 2)], [], 1, 0, 1),
    ],
)
def test_what_is_lost_doubled_or_foreign_is_counted(
    landed: list[Position], kept: list[Position], missing: int, duplicates: int, foreign: int
) -> None:
    found = account(positions(0, 1, 2), landed, kept)
    assert (len(found.missing), found.duplicates, found.foreign) == (missing, duplicates, foreign)
    assert not found.exact


@pytest.mark.parametrize(
    "value", [None, b"", b"[1]", b"null", b"{", b'{"n": "1"}', b'{"n": true}', b'{"t": "noon"}', b'{"t": 5}', b"\xff"]
)
def test_records_that_must_go_to_quarantine(value: bytes | None) -> None:
    assert decode(value, {"n": "INT", "t": "TIMESTAMP"}) is None


def test_only_declared_columns_decide() -> None:
    assert decode(b'{"n": 1, "other": {"a": 1}}', {"n": "INT", "s": "STRING"}) == {"n": 1, "s": None}
    row = decode(b'{"t": "2013-01-01T10:00:00Z"}', {"t": "TIMESTAMP"})
    assert row == {"t": datetime(2013, 1, 1, 10, tzinfo=UTC)}


def test_batches_nobody_recorded_are_empty_or_take_the_gap() -> None:
    recorded = [BatchRange(0, {0: 0}, {0: 5}), BatchRange(2, {0: 5}, {0: 9}), BatchRange(4, {0: 12}, {0: 13})]
    found = contiguous(recorded, {0: 0})
    assert [(each.batch_id, each.start[0], each.end[0]) for each in found] == [
        (0, 0, 5),
        (1, 5, 5),
        (2, 5, 9),
        (3, 9, 12),
        (4, 12, 13),
    ]


def test_boundaries_that_prove_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="before the end"):
        contiguous([BatchRange(0, {0: 0}, {0: 5}), BatchRange(1, {0: 4}, {0: 9})], {0: 0})
    with pytest.raises(ValueError, match="ended at"):
        contiguous([BatchRange(0, {0: 0}, {0: 5}), BatchRange(1, {0: 6}, {0: 9})], {0: 0})
    with pytest.raises(ValueError, match="ended at"):
        contiguous([BatchRange(0, {0: 0}, {0: 5}), BatchRange(3, {0: 6}, {0: 9})], {0: 0})


def message(offset: int, ms: int = 0, partition: int = 0) -> Message:
    return Message(Position(partition, offset), ms, str(offset).encode())


def test_rows_of_a_batch_are_those_between_its_offsets() -> None:
    log = {0: [message(n) for n in range(4)], 1: [message(n, partition=1) for n in range(2)]}
    batches = contiguous([BatchRange(0, {0: 0, 1: 0}, {0: 3, 1: 0}), BatchRange(1, {0: 3, 1: 0}, {0: 4, 1: 2})], {})
    found = events_of(batches, log, lambda each: Event(each.position.offset, str(each.position.partition), None))
    assert [[(row.group, row.time_ms) for row in rows] for rows in found] == [
        [("0", 0), ("0", 1), ("0", 2)],
        [("0", 3), ("1", 0), ("1", 1)],
    ]


def test_freshness_counts_from_the_records_own_time_to_its_commit() -> None:
    committed = datetime.fromtimestamp(100, UTC)
    batches = [BatchRange(0, {0: 0}, {0: 2}, committed)]
    assert freshness(batches, {0: [message(0, 90_000), message(1, 99_000), message(2, 99_000)]}) == [10.0, 1.0]


def test_p99_is_the_nearest_rank() -> None:
    assert p99([]) is None
    assert p99([3.0]) == 3.0
    assert p99([float(n) for n in range(1, 201)]) == 198.0


def test_windows_must_be_there_once_with_the_same_figures() -> None:
    expected = recompute(
        [
            [
                Event(HOUR, "JFK", 1.0),
                Event(HOUR, "LGA", None),
                Event(2 * HOUR, "EWR", 20.0),
                Event(20 * HOUR, "JFK", 1.0),
            ],
            [],
        ],
        width_ms=HOUR,
        delay_ms=2 * HOUR,
    )
    right = [
        WindowRow((HOUR, "JFK"), (1, 1, 0, 1.0, 1.0)),
        WindowRow((HOUR, "LGA"), (1, 0, 0, None, None)),
        WindowRow((2 * HOUR, "EWR"), (1, 1, 1, 20.0 + 1e-12, 20.0)),
    ]
    assert compare_windows(expected, right).mismatched == ()
    wrong = [
        right[0],
        right[0],
        WindowRow((HOUR, "LGA"), (1, 0, 0, 0.0, None)),
        WindowRow((20 * HOUR, "JFK"), (1, 1, 0, 1.0, 1.0)),
    ]
    told = dict(compare_windows(expected, wrong).mismatched)
    assert told[HOUR, "JFK"] == "written 2 times"
    assert told[HOUR, "LGA"].startswith("says (1, 0, 0, 0.0")
    assert told[2 * HOUR, "EWR"].startswith("missing")
    assert told[20 * HOUR, "JFK"].startswith("written, but not closed")
    assert len(told) == 4
