"""Kinesis on loopback: moto's server, in a thread of the test.

Where moto differs from Kinesis: a split moves the parent's records to its children, and later ones go to the parent all
the same (both put right here); a closed shard never says that it is at its end; sequence numbers are small and begin at
1 in each shard; nothing ever expires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from lakeward.connectors.aws import account
from lakeward.connectors.kinesis.stream import Place
from lakeward.platform import ports, private

REGION, CONNECTION = "eu-central-1", "clicks"
KEYS = {account.KEY: "testing", account.SECRET: "k1nesis-s3cret"}
_WHOLE = 2**128
_MOST = 500
"""Records in a request, as Kinesis has it."""


@dataclass(frozen=True)
class Rig:
    """A running server; `secrets` is the folder of connections."""

    endpoint: str
    secrets: Path

    def place(self, name: str) -> Place:
        return Place(name, REGION, CONNECTION, str(self.secrets))

    def client(self) -> Any:
        place = self.place("any")
        return place.connect(place.account)

    def create(self, shards: int = 1) -> str:
        name = f"s-{uuid4().hex[:8]}"
        self.client().create_stream(StreamName=name, ShardCount=shards)
        return name

    def put(self, name: str, values: Sequence[Any], at: float | None = None) -> None:
        """Records, text as it is and anything else as JSON; over the shards by turns, or at one place of 0..1."""
        records = []
        for number, value in enumerate(values):
            data = value if isinstance(value, str) else json.dumps(value)
            where = at if at is not None else (number * 0.381966) % 1
            key = str(int(where * (_WHOLE - 1)))
            records.append({"Data": data.encode(), "PartitionKey": f"k{number}", "ExplicitHashKey": key})
        client = self.client()
        for begin in range(0, len(records), _MOST):
            client.put_records(StreamName=name, Records=records[begin : begin + _MOST])

    def shards(self, name: str) -> Any:
        """moto's own."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.kinesis.models import kinesis_backends

        return kinesis_backends[DEFAULT_ACCOUNT_ID][REGION].streams[name].shards

    def split(self, name: str, shard: str) -> None:
        """Split a shard in the middle; what it has stays in it, as Kinesis has it."""
        here = self.shards(name)[shard]
        retained, middle = here.records, (here.starting_hash + here.ending_hash) // 2
        before = {each: dict(found.records) for each, found in self.shards(name).items() if each != shard}
        self.client().split_shard(StreamName=name, ShardToSplit=shard, NewStartingHashKey=str(middle))
        here.records = retained
        here.starting_hash = here.ending_hash = -1  # moto would go on to write into it
        for each, found in self.shards(name).items():
            if each != shard:
                found.records = type(retained)(before.get(each, {}))

    def expire(self, name: str, shard: str, most: int) -> None:
        """Take a shard's oldest records, as retention does."""
        records = self.shards(name)[shard].records
        for each in list(records)[:most]:
            del records[each]


@contextmanager
def running(folder: Path) -> Iterator[Rig]:
    """A server, and the connection `clicks` to it."""
    from moto.server import ThreadedMotoServer

    port = ports.any_free()
    server = ThreadedMotoServer(ip_address=ports.HOST, port=port, verbose=False)
    server.start()
    try:
        made = Rig(f"http://{ports.HOST}:{port}", private.folder(folder / "secrets"))
        given = {**KEYS, account.ENDPOINT: made.endpoint, account.REGION: REGION}
        private.write(private.folder(made.secrets / "aws") / f"{CONNECTION}.ini", account.render(given))
        yield made
    finally:
        server.stop()
