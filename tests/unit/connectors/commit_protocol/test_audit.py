"""Counting records against offsets, on arrays; the scan itself is proved on real tables."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeward.connectors.commit_protocol.audit import PartitionAudit, _collect, _offsets, _partition, audit
from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.connectors.kafka.records import Records


def _audit(landed: list[int], aside: list[int], start: int, to: int, records: int | None = None) -> PartitionAudit:
    return _partition(
        "source", ("t", 0), start, to, records, pa.array(landed, pa.int64()), pa.array(aside, pa.int64()), True
    )


def test_everything_once_is_clean() -> None:
    found = _audit([3, 5, 4], [6], 3, 7)

    assert (found.missing, found.duplicates, found.beyond, found.gaps) == (0, 0, 0, ())
    assert (found.landed, found.quarantined, found.records) == (3, 1, 4)


def test_gaps_are_named_with_their_ranges() -> None:
    assert _audit([2, 3, 7], [], 0, 9).gaps == ((0, 2), (4, 7), (8, 9))
    assert _audit([], [], 5, 8).gaps == ((5, 8),)


def test_holes_of_a_transactional_topic_are_not_losses() -> None:
    found = _audit([0, 1, 3, 4], [], 0, 6, records=4)

    assert found.missing == 0
    assert _audit([0, 1, 3], [], 0, 6, records=4).missing == 1


def test_a_record_landed_and_set_aside_is_a_duplicate_and_hides_no_loss() -> None:
    found = _audit([0, 1], [1], 0, 3)

    assert (found.missing, found.duplicates) == (1, 1)


def test_records_the_position_does_not_count_are_beyond() -> None:
    assert _audit([0, 1, 2, 3], [], 0, 3).beyond == 1
    assert _audit([0, 1, 2], [], 1, 3).beyond == 1


@given(
    landed=st.lists(st.integers(0, 20)),
    aside=st.lists(st.integers(0, 20)),
    start=st.integers(0, 10),
    to=st.integers(10, 20),
)
def test_it_agrees_with_counting_one_by_one(landed: list[int], aside: list[int], start: int, to: int) -> None:
    found = _audit(landed, aside, start, to)

    wanted = range(start, to)
    assert found.missing == sum(1 for each in wanted if each not in landed and each not in aside)
    extra = sum(count - 1 for count in Counter(landed).values())
    assert found.duplicates == extra + len(set(landed) & set(aside) & set(wanted))
    assert found.landed == len(set(landed) & set(wanted))
    covered = {offset for low, high in found.gaps for offset in range(low, high)}
    assert covered == {each for each in wanted if each not in landed and each not in aside} or len(found.gaps) == 10


def test_offsets_are_collected_by_topic_and_partition() -> None:
    batch = pa.record_batch(
        {"_kafka_topic": ["a", "b", "a"], "_kafka_partition": [0, 0, 1], "_kafka_offset": [1, 2, 3]},
    )

    found = _collect(iter([batch, batch]))

    assert {part: offsets.to_pylist() for part, offsets in found.items()} == {
        ("a", 0): [1, 1],
        ("b", 0): [2, 2],
        ("a", 1): [3, 3],
    }


def test_a_source_without_data_has_no_partitions() -> None:
    assert _offsets("-") == {}
    assert _offsets('{"t":{"0":5,"12":7}}') == {("t", 0): 5, ("t", 12): 7}


@given(
    landed=st.lists(st.integers(0, 20), unique=True),
    edges=st.lists(st.integers(0, 20), min_size=4, max_size=4).map(sorted),
    start=st.integers(0, 10),
    to=st.integers(10, 20),
)
def test_what_was_given_up_is_skipped_and_not_missing(landed: list[int], edges: list[int], start: int, to: int) -> None:
    given_up = [(edges[0], edges[1]), (edges[2], edges[3])]
    nothing = pa.array([], pa.int64())
    found = _partition(
        "source", ("t", 0), start, to, None, pa.array(landed, pa.int64()), nothing, unfiltered=True, skips=given_up
    )

    absent = [each for each in range(start, to) if each not in landed]
    skipped = [each for each in absent if any(low <= each < high for low, high in given_up)]
    assert found.skipped == len(skipped)
    assert found.missing == len(absent) - len(skipped)
    shown = [each for low, high in found.gaps for each in range(low, high)]
    assert shown == [each for each in absent if each not in skipped]


def _with_expired(landed: list[int], consumed: int) -> tuple[int, int]:
    """Missing and duplicates of offsets 0 to 9, of which the source has none any more."""
    rows = pa.record_batch(
        {
            "_kafka_topic": pa.array(["t"] * len(landed)),
            "_kafka_partition": pa.array([0] * len(landed), pa.int32()),
            "_kafka_offset": pa.array(landed, pa.int64()),
        }
    )
    position = Position(
        seq=3, query_id="q", batch=2, begin={"s": '{"t":{"0":0}}'}, end={"s": '{"t":{"0":10}}'},
        totals=Totals(consumed=consumed, landed=consumed),
    )  # fmt: skip
    found = audit(
        lambda topics, stream: iter([rows]), "s", position,
        lookup=lambda absent: {part: Records((), tuple(spans)) for part, spans in absent.items()},
    )  # fmt: skip
    return found.missing, found.duplicates


def test_an_expired_record_that_was_counted_and_is_nowhere_is_missing() -> None:
    assert _with_expired([0, 2, 4, 6, 8], consumed=5) == (0, 0)
    assert _with_expired([0, 2, 4, 6], consumed=5) == (1, 0)


def test_a_row_that_is_there_twice_hides_no_loss() -> None:
    assert _with_expired([0, 2, 4, 6, 6], consumed=5) == (1, 1)
