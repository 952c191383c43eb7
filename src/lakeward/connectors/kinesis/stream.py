"""Kinesis API client for one stream: its shards and their records. The driver and Spark's workers use it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from lakeward.connectors.aws.account import Account, find
from lakeward.connectors.aws.session import session_of
from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset
from lakeward.platform.renewed import Renewed

R = TypeVar("R")
CONNECT_S, ANSWER_S, ATTEMPTS = 5, 10, 5
"""How long a request waits for a connection, and for a byte of the answer; how often it is sent."""
MOST = 10_000
"""The most records of one answer, by Kinesis' limit."""
_EXPIRED = "ExpiredIteratorException"
_NOT_FOUND = "ResourceNotFoundException"


@dataclass(frozen=True)
class Shard:
    """One shard.

    Attributes:
        parents: the shards that it was split or merged from.
        closed: whether no more records are written to it.
    """

    id: str
    parents: tuple[str, ...]
    closed: bool


@dataclass(frozen=True)
class Answer:
    """Records of a shard, in order.

    Attributes:
        after: the iterator of the next request; None at the end of a closed shard.
        at_tip: whether there are no further records now.
    """

    records: list[Mapping[str, Any]]
    after: str | None
    at_tip: bool


@dataclass(frozen=True)
class Place:
    """The address and connection of a stream, in plain values that Spark can send to its workers.

    Attributes:
        connection: the id of the AWS connection; empty: the machine's identity.
        connections: the folder of the connections.
    """

    name: str
    region: str
    connection: str = ""
    connections: str = ""

    def options(self) -> dict[str, str]:
        """The options of the Spark data source."""
        return {"stream": self.name, "region": self.region, "connection": self.connection,
                "connections": self.connections}  # fmt: skip

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Place:
        """Parse the result of `options`."""
        return cls(options["stream"], options["region"], options.get("connection", ""), options.get("connections", ""))

    @property
    def account(self) -> Account:
        """The account whose keys are used.

        Raises:
            SpecError: the connection is not valid.
        """
        return find(self.connection or None, Path(self.connections) if self.connections else None)

    def use(self, act: Callable[[Any], R]) -> R:
        """What `act` returns for a client of boto3 with the current keys. The client is kept in the process until they
        change; one whose requests were not answered twice in a row is replaced.

        Raises:
            SpecError: the connection is not valid.
        """
        account = self.account
        version = 0 if account.file is None else account.file.stat().st_mtime_ns
        return _held(self, account, version, os.getpid()).use(act)

    def connect(self, account: Account, timeout_s: float | None = None) -> Any:
        """A client of an account; with `timeout_s` it waits at most that long and does not retry."""
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=timeout_s or CONNECT_S,
            read_timeout=timeout_s or ANSWER_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS if timeout_s is None else 1},
        )
        return boto3.session.Session(botocore_session=session_of(account)).client(
            "kinesis", region_name=self.region, endpoint_url=account.endpoint, config=config
        )


@lru_cache(maxsize=8)
def _held(place: Place, account: Account, version: int, pid: int) -> Renewed[Any]:
    name = f"Kinesis client of {place.name}"
    return Renewed(name, partial(place.connect, account), lambda client: client.close(), counts=_unanswered)


def _unanswered(error: Exception) -> bool:
    from botocore.exceptions import BotoCoreError

    return isinstance(error, BotoCoreError)


Row = tuple[Any, ...]
"""The values of `datasource.COLUMNS`, in order."""


def row(place: Place, shard: str, record: Mapping[str, Any]) -> Row:
    """A record as a raw row."""
    return (
        bytes(record["Data"]),
        record["PartitionKey"],
        place.name,
        shard,
        record["SequenceNumber"],
        record["ApproximateArrivalTimestamp"],
    )


def _listed(request: Mapping[str, str], client: Any) -> Any:
    return client.list_shards(**request)


class Stream:
    """Reads one stream. It is not thread-safe."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._use = place.use  # for each request: a reader that lives for weeks outlives its keys

    def summary(self) -> tuple[str, int]:
        """An id that changes when the stream is deleted and created again, and its retention in milliseconds."""
        answer = self._use(lambda client: client.describe_stream_summary(StreamName=self.place.name))
        summary = answer["StreamDescriptionSummary"]
        created = int(summary["StreamCreationTimestamp"].timestamp() * 1000)
        return f"{summary['StreamARN']}/{created}", int(summary["RetentionPeriodHours"]) * 3_600_000

    def shards(self) -> dict[str, Shard]:
        """All shards that are open or still have records."""
        shards: dict[str, Shard] = {}
        request: dict[str, str] = {"StreamName": self.place.name}
        while True:
            page = self._use(partial(_listed, request))
            for shard in page["Shards"]:
                parents = tuple(shard[key] for key in ("ParentShardId", "AdjacentParentShardId") if shard.get(key))
                closed = "EndingSequenceNumber" in shard["SequenceNumberRange"]
                shards[shard["ShardId"]] = Shard(shard["ShardId"], parents, closed)
            if not page.get("NextToken"):
                return shards
            request = {"NextToken": page["NextToken"]}

    def iterator(self, shard: str, after: ShardOffset) -> str:
        """An iterator after a mark of a shard."""
        if after.sequence is not None:
            kind: dict[str, Any] = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": after.sequence,
            }
        elif after.moment_ms is not None:
            moment = datetime.fromtimestamp(after.moment_ms / 1000, UTC)
            kind = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
        else:
            kind = {"ShardIteratorType": HORIZON}
        return self._iterator(shard, kind)

    def _iterator(self, shard: str, kind: dict[str, Any]) -> str:
        answer = self._use(lambda client: client.get_shard_iterator(StreamName=self.place.name, ShardId=shard, **kind))
        return str(answer["ShardIterator"])

    def records(self, iterator: str, most: int) -> Answer | None:
        """The next records; None if the iterator has expired (after five minutes)."""
        from botocore.exceptions import ClientError

        try:
            answer = self._use(lambda client: client.get_records(ShardIterator=iterator, Limit=min(most, MOST)))
        except ClientError as error:
            if error.response["Error"]["Code"] == _EXPIRED:
                return None
            raise
        return Answer(answer["Records"], answer.get("NextShardIterator"), answer.get("MillisBehindLatest") == 0)

    def has(self, shard: str, sequence: str) -> bool:
        """Whether a record still exists; if it does, so do all records after it."""
        from botocore.exceptions import ClientError

        kind = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence}
        try:
            iterator: str | None = self._iterator(shard, kind)
            while iterator is not None:
                answer = self.records(iterator, 1)
                if answer is not None and answer.records:
                    return bool(answer.records[0]["SequenceNumber"] == sequence)
                iterator = None if answer is None or answer.at_tip else answer.after
        except ClientError as error:
            if error.response["Error"]["Code"] not in (_NOT_FOUND, "InvalidArgumentException"):
                raise
        return False

    def between(self, shard: str, first: ShardOffset, last: ShardOffset) -> Iterator[Mapping[str, Any]]:
        """The records after one mark up to another, in the shard's order; the same records at every call.

        Raises:
            LookupError: the last record no longer exists.
        """
        end = None if last.sequence is None else int(last.sequence)
        closed = False
        current, iterator = first, self.iterator(shard, first)
        while True:
            answer = self.records(iterator, MOST)
            if answer is None:
                iterator = self.iterator(shard, current)
                continue
            for record in answer.records:
                number = int(record["SequenceNumber"])
                if end is not None and number > end:
                    raise LookupError(self._missing(shard, last))
                yield record
                current = ShardOffset(record["SequenceNumber"])
                if number == end:
                    return
            closed = closed or (not answer.records and answer.at_tip and self.shards()[shard].closed)
            if answer.after is None or (closed and not answer.records):
                if end is None:
                    return
                raise LookupError(self._missing(shard, last))
            iterator = answer.after

    def _missing(self, shard: str, last: ShardOffset) -> str:
        return f"Kinesis no longer has record {last.sequence} of shard {shard} of stream {self.place.name}"
