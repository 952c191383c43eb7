"""Kafka's position form."""

from __future__ import annotations

import pytest

from lakeward.connectors.kafka import position


def test_one_text_whatever_the_order() -> None:
    first, second = '{"b":{"1":5,"0":3},"a":{"0":1}}', '{"a": {"0": 1}, "b": {"0": 3, "1": 5}}'
    assert position.canonical(first) == position.canonical(second) == '{"a":{"0":1},"b":{"0":3,"1":5}}'


def test_a_partition_that_appeared_starts_at_its_beginning() -> None:
    start, end = position.same_partitions('{"t":{"0":5}}', '{"t":{"0":9,"1":4}}')
    assert start == {"t": {0: 5, 1: position.EARLIEST}}
    assert end == {"t": {0: 9, 1: 4}}


def test_nothing_read_yet() -> None:
    assert position.parse("-") == {}
    assert position.behind("-", {"t": {0: 4}}) == 4


def test_a_topic_recreated_shorter_is_not_negative_lag() -> None:
    assert position.behind('{"t":{"0":50}}', {"t": {0: 4}}) == 0


@pytest.mark.parametrize(
    ("start", "end", "records"),
    [
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}', 4),
        ('{"t":{"0":5},"u":{"0":0}}', '{"t":{"0":6},"u":{"0":3}}', 4),
        ('{"t":{"0":5}}', '{"t":{"0":6,"1":3}}', None),  # a new partition, whose beginning is not known
        ("-", '{"t":{"0":6}}', None),
        ('{"t":{"0":-2}}', '{"t":{"0":6}}', None),
    ],
)
def test_the_span_of_a_range_is_the_most_records_it_can_hold(start: str, end: str, records: int | None) -> None:
    assert position.span(start, end) == records


@pytest.mark.parametrize(
    ("ends", "replaced"),
    [
        ({"t": {0: 9, 1: 3}}, False),
        ({"t": {0: 9, 1: 3, 2: 0}}, False),
        ({"t": {0: 9, 1: 2}}, True),
        ({"t": {0: 9}}, True),  # created again with fewer partitions, and longer than it was
        ({}, True),
    ],
)
def test_a_topic_that_ends_before_the_position_or_lacks_a_partition_of_it_is_another_one(
    ends: position.Offsets, replaced: bool
) -> None:
    landed = '{"no longer read":{"0":7},"t":{"0":5,"1":3}}'
    assert position.replaced(landed, ends, ["t"]) is replaced
