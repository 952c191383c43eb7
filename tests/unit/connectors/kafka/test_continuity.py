"""Positions against what the broker still has."""

from __future__ import annotations

import pytest

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka.continuity import check
from lakeward.platform.errors import Blocked

AT = '{"t":{"0":100,"1":50}}'


def test_everything_is_there() -> None:
    check("s", AT, {"t": {0: 100, 1: 0, 2: 0}}, {"t": {0: 100, 1: 60, 2: 9}})


def test_retention_passed_the_position_names_the_exact_range() -> None:
    with pytest.raises(Blocked) as raised:
        check("s", AT, {"t": {0: 100, 1: 80}}, {"t": {0: 200, 1: 90}})
    assert raised.value.reason == "source-expired"
    assert "t/1: 50 to 79 (30 offsets)" in raised.value.why
    assert raised.value.next.startswith('lakeward streams reset s --to available --comment "records expired"   ')


def test_a_topic_shorter_than_the_position_is_another_topic() -> None:
    with pytest.raises(Blocked) as raised:
        check("s", AT, {"t": {0: 0, 1: 0}}, {"t": {0: 3, 1: 50}})
    assert raised.value.reason == "topic-replaced"
    assert "t/0: landed up to 100, it ends at 3" in raised.value.why
    first, other = raised.value.next.split("; or ")
    assert first == "give the stream a new id and a new table (conf/streams/s.yaml), then: lakeward deploy"
    assert other == "if these are other brokers than before, correct the connection"


def test_a_topic_nobody_named_is_not_judged() -> None:
    check("s", AT, {}, {})


def test_a_partition_that_the_stream_has_not_read_yet_must_begin_at_its_first_record() -> None:
    begins, ends = {"t": {0: 100, 1: 50, 2: 7}}, {"t": {0: 100, 1: 60, 2: 9}}
    with pytest.raises(Blocked) as raised:
        check("s", AT, begins, ends)
    assert raised.value.reason == "source-expired"
    assert "t/2: 0 to 6 (7 offsets) of a partition that the stream has not read yet" in raised.value.why
    check("s", AT, begins, ends, from_zero=False)
    check("s", NO_DATA, begins, ends)


def test_a_topic_that_was_added_after_its_first_records_expired_has_lost_nothing_of_the_stream() -> None:
    begins, ends = {"t": {0: 100, 1: 50}, "u": {0: 7}}, {"t": {0: 100, 1: 60}, "u": {0: 9}}
    with pytest.raises(Blocked) as raised:
        check("s", AT, begins, ends, named={"t", "u"})
    assert (raised.value.reason, raised.value.code) == ("topic-added-late", "LW-3483")
    assert "u/0: 0 to 6 (7 offsets) before the stream read the topic" in raised.value.why
    assert raised.value.next.startswith('lakeward streams reset s --to available --comment "topic added"   ')
    with pytest.raises(Blocked) as raised:
        check("s", AT, begins, ends)  # by a pattern: it may have been there while the stream was down
    assert raised.value.reason == "source-expired"
    with pytest.raises(Blocked) as raised:  # what the stream promised is said first
        check("s", AT, begins | {"t": {0: 101, 1: 50}}, ends, named={"t", "u"})
    assert raised.value.reason == "source-expired" and "u/0" not in raised.value.why
    check("s", AT, begins, ends, from_zero=False, named={"t", "u"})
