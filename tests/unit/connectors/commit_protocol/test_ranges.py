"""Which records a mismatch of offsets would lose or double."""

from __future__ import annotations

from lakeward.connectors.commit_protocol import ranges


def _words(landed: dict[str, str], start: dict[str, str]) -> str:
    return ranges.in_words(ranges.differences(landed, start))


def test_kafka_offsets_name_topic_partition_and_records() -> None:
    landed = {"source": '{"flights":{"0":10,"1":20}}'}

    assert _words(landed, {"source": '{"flights":{"0":12,"1":20}}'}) == (
        "source flights/0: records 10 to 11 would be skipped"
    )
    assert _words(landed, {"source": '{"flights":{"0":10,"1":5}}'}) == (
        "source flights/1: records 5 to 19 would land twice"
    )


def test_plain_numbers_are_compared_as_numbers() -> None:
    found = ranges.differences({"s": "9"}, {"s": "10"})

    assert ranges.kind_of(found) == "gap"
    assert str(found[0]) == "s: records 9 to 9 would be skipped"


def test_what_would_land_twice_is_named_first() -> None:
    found = ranges.differences({"s": '{"t":{"0":5,"1":5}}'}, {"s": '{"t":{"0":9,"1":1}}'})

    assert ranges.kind_of(found) == "overlap"


def test_opaque_offsets_and_unknown_places_are_only_different() -> None:
    assert ranges.kind_of(ranges.differences({"s": "abc"}, {"s": "abd"})) == "discontinuous"
    assert ranges.kind_of(ranges.differences({"s": "-"}, {"s": "5"})) == "discontinuous"
    assert ranges.kind_of(ranges.differences({"a": "1"}, {"b": "1"})) == "discontinuous"
    assert "the batch starts at 0" in _words({"s": '{"t":{"0":1}}'}, {"s": '{"t":{"0":1,"1":0}}'})


def test_equal_offsets_differ_nowhere_and_long_lists_are_cut() -> None:
    many = {"s": "{" + ",".join(f'"{n}":0' for n in range(30)) + "}"}
    later = {"s": many["s"].replace(":0", ":1")}

    assert ranges.differences(many, many) == []
    assert _words(many, later).endswith("and 20 more")
    assert "s 2: " in _words(many, later).split(";")[2], "partitions stand in the order of numbers"
