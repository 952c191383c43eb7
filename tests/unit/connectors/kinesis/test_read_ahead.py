"""Reading ahead and reading again, on moto's Kinesis."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import kinesis_rig
import pytest
from kinesis_rig import Rig

from lakeward.connectors.kinesis import continuity, shard_offsets
from lakeward.connectors.kinesis.read_ahead import ReadAhead
from lakeward.connectors.kinesis.shard_offsets import BEGIN, END, HORIZON, ShardOffset
from lakeward.connectors.kinesis.stream import Stream
from lakeward.platform.errors import Blocked

FIRST = "shardId-000000000000"


@pytest.fixture(scope="module")
def kinesis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with kinesis_rig.running(tmp_path_factory.mktemp("kinesis")) as made:
        yield made


def between(kinesis: Rig, name: str, start: Mapping[str, str], end: Mapping[str, str]) -> list[int]:
    stream = Stream(kinesis.place(name))
    return sorted(
        int(record["Data"])
        for shard, (first, last) in shard_offsets.ranges(start, end).items()
        for record in stream.between(shard, first, last)
    )


def drain(kinesis: Rig, name: str, ahead: ReadAhead, at: Mapping[str, str]) -> tuple[list[int], dict[str, str]]:
    """Step until nothing moves; every step's records, each read twice and the same."""
    found: list[int] = []
    while (then := ahead.step(at)) != at:
        step = between(kinesis, name, at, then)
        assert len(step) <= ahead.most
        assert step == between(kinesis, name, at, then), "a range gives the same records again"
        found, at = found + step, then
    return found, dict(at)


def test_steps_are_bounded_and_hold_each_record_once(kinesis: Rig) -> None:
    name = kinesis.create(3)
    kinesis.put(name, range(100))
    ahead = ReadAhead(Stream(kinesis.place(name)), 7)
    begin = ahead.begin(ShardOffset(HORIZON))
    found, at = drain(kinesis, name, ahead, begin)
    assert sorted(found) == list(range(100))
    kinesis.put(name, range(100, 110))
    again = ReadAhead(Stream(kinesis.place(name)), 1000)  # a driver that was started again knows the marks alone
    assert drain(kinesis, name, again, at)[0] == list(range(100, 110))
    assert between(kinesis, name, begin, at) == list(range(100))


def test_children_are_read_after_their_parent_is_at_its_end(kinesis: Rig) -> None:
    name = kinesis.create()
    kinesis.put(name, range(10))
    ahead = ReadAhead(Stream(kinesis.place(name)), 4)
    at = ahead.step(ahead.begin(ShardOffset(HORIZON)))
    kinesis.split(name, FIRST)
    kinesis.put(name, range(10, 30))
    here, found = dict(at), between(kinesis, name, {BEGIN: at[BEGIN]}, at)
    while (then := ReadAhead(Stream(kinesis.place(name)), 4).step(here)) != here:
        children = [mark for shard, mark in then.items() if shard not in (BEGIN, FIRST)]
        assert not children or then[FIRST] == END, "a key's records stay in order"
        found, here = found + between(kinesis, name, here, then), then
    assert sorted(found) == list(range(30))
    assert here[FIRST] == END
    del kinesis.shards(name)[FIRST]  # as Kinesis forgets a closed shard with its last record
    assert FIRST not in ReadAhead(Stream(kinesis.place(name)), 4).step(here)


def test_a_stream_may_begin_at_its_end_and_at_a_time(kinesis: Rig) -> None:
    name = kinesis.create()
    kinesis.put(name, range(3))
    time.sleep(0.01)
    moment = int(time.time() * 1000)
    time.sleep(0.01)
    kinesis.put(name, range(3, 5))
    ahead = ReadAhead(Stream(kinesis.place(name)), 10)
    assert drain(kinesis, name, ahead, ahead.begin(ShardOffset.at(moment)))[0] == [3, 4]
    now = ahead.begin(ShardOffset.at(int(time.time() * 1000) + 1))
    assert drain(kinesis, name, ahead, now)[0] == []


def test_an_idle_shard_says_once_an_hour_that_everything_was_seen(kinesis: Rig) -> None:
    name, clock = kinesis.create(), [time.time()]
    kinesis.put(name, range(3))
    ahead = ReadAhead(Stream(kinesis.place(name)), 10, now=lambda: clock[0])
    _, at = drain(kinesis, name, ahead, ahead.begin(ShardOffset(HORIZON)))
    clock[0] += 3500
    assert ahead.step(at) == at, "an idle stream makes no batches"
    clock[0] += 200
    then = ahead.step(at)
    assert ShardOffset.parse(then[FIRST]).where == ShardOffset.parse(at[FIRST]).where
    assert ShardOffset.parse(then[FIRST]).seen_ms == int(clock[0] * 1000)
    assert ahead.step(then) == then


def test_what_retention_took_unseen_is_named_and_what_was_seen_is_not(kinesis: Rig) -> None:
    name, now = kinesis.create(), time.time()
    kinesis.put(name, range(5))
    ahead = ReadAhead(Stream(kinesis.place(name)), 3)
    at = ahead.step(ahead.begin(ShardOffset(HORIZON)))
    stream, later = Stream(kinesis.place(name)), now + 25 * 3600
    continuity.check(
        "s", stream, shard_offsets.render(at), later
    )  # the record it stands at is there still: nothing is lost
    kinesis.expire(name, FIRST, 4)
    continuity.check("s", stream, shard_offsets.render(at), now)  # younger than the retention
    with pytest.raises(Blocked, match="no longer has records that stream s") as lost:
        continuity.check("s", stream, shard_offsets.render(at), later)
    assert lost.value.reason == "source-expired"
    assert "retention of 24 h deleted shardId-000000000000: records that arrived from" in lost.value.why
    with pytest.raises(LookupError, match="no longer has the records after"):
        ReadAhead(Stream(kinesis.place(name)), 3, now=lambda: later).step(at)
    with pytest.raises(LookupError, match="no longer has record 3"):
        between(kinesis, name, {BEGIN: at[BEGIN]}, at)
    gone: dict[str, Any] = {**at, "shardId-000000000009": "7@1"}
    with pytest.raises(Blocked, match="no longer has") as lost:
        continuity.check("s", stream, shard_offsets.render(gone), now)
    assert "the shard itself, read up to 7" in lost.value.why
