"""Kinesis that says nothing is a dependency that is down, after a limit, and another client goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import kinesis_rig
import pytest
from kinesis_rig import KEYS, REGION
from proxy import Proxy

from lakeward.connectors.aws import account
from lakeward.connectors.kinesis import stream as client
from lakeward.connectors.kinesis.read_ahead import ReadAhead
from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset
from lakeward.connectors.kinesis.source import KinesisStreamSource
from lakeward.connectors.kinesis.stream import Place, Stream
from lakeward.platform import ports, private
from lakeward.platform.errors import DependencyDown
from lakeward.platform.failures import FailureClass, classify
from lakeward.spec.model.sources import Source


@pytest.fixture
def way(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, Place]]:
    """A way to Kinesis, and the place of a stream that is reached by it."""
    with kinesis_rig.running(tmp_path_factory.mktemp("kinesis")) as rig:
        proxy = Proxy(urlsplit(rig.endpoint).port or 0)
        given = {**KEYS, account.ENDPOINT: f"http://{ports.HOST}:{proxy.port}", account.REGION: REGION}
        private.write(rig.secrets / "aws" / "behind.ini", account.render(given))
        name = rig.create(1)
        rig.put(name, range(5))
        monkeypatch.setattr(client, "ANSWER_S", 1)
        monkeypatch.setattr(client, "ATTEMPTS", 2)
        yield proxy, Place(name, REGION, "behind", str(rig.secrets))
        proxy.close()


def test_silence_ends_each_request_and_another_client_goes_on(way: tuple[Proxy, Place]) -> None:
    proxy, place = way
    spec = {"stream": place.name, "region": REGION, "connection": "behind", "max_records_per_trigger": 9}
    source = KinesisStreamSource("source", Source.model_validate({"kinesis": spec}), place)
    known, ahead = source.ids(), ReadAhead(Stream(place), 9)
    begin = ahead.begin(ShardOffset(HORIZON))
    clients: list[Any] = [place.use(lambda used: used)]

    proxy.set("hole")
    with pytest.raises(DependencyDown, match="Kinesis does not answer") as told:
        source.ids()
    assert "ReadTimeoutError" in told.value.why
    clients.append(place.use(lambda used: used))  # not an answer of the server
    for _ in range(2):
        with pytest.raises(Exception, match="Read timeout") as raw:  # a query meets it as its client raises it
            ahead.step(begin)
        assert classify(text=f"PythonException: {type(raw.value).__name__}: {raw.value}") is FailureClass.DEPENDENCY
    proxy.set("pass")

    assert source.ids() == known
    clients.append(place.use(lambda used: used))
    assert clients[0] is clients[1], "one silence is none"
    assert clients[2] is not clients[0]
    end = ahead.step(begin)
    [(shard, mark)] = [(shard, mark) for shard, mark in end.items() if shard in Stream(place).shards()]
    read = Stream(place).between(shard, ShardOffset(HORIZON), ShardOffset.parse(mark))
    assert [record["Data"] for record in read] == [b"0", b"1", b"2", b"3", b"4"]


def test_an_answer_of_the_server_is_no_silence(way: tuple[Proxy, Place]) -> None:
    """A refusal says nothing against the client."""
    _, place = way
    nowhere = Place("nowhere", place.region, place.connection, place.connections)
    first = nowhere.use(lambda used: used)
    for _ in range(3):
        with pytest.raises(Exception, match="ResourceNotFoundException"):
            Stream(nowhere).summary()
    assert nowhere.use(lambda used: used) is first
