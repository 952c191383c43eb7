"""One stream as the API of Kinesis shows it: its shards, and their records. For the driver and for Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from lakeward.connectors.aws import account
from lakeward.connectors.aws.account import KEY, SECRET, TOKEN
from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset

MOST = 10_000
"""Records of one answer, by Kinesis' own limit."""
_EXPIRED = "ExpiredIteratorException"
_GONE = "ResourceNotFoundException"


@dataclass(frozen=True)
class Shard:
    """One shard. `parents`: those it was split or merged from; `closed`: nothing is written to it any more."""

    id: str
    parents: tuple[str, ...]
    closed: bool


@dataclass(frozen=True)
class Answer:
    """Records of a shard, in its order. `after`: where to go on, None at a closed shard's end; `at_tip`: there are no
    more now."""

    records: list[Mapping[str, Any]]
    after: str | None
    at_tip: bool


@dataclass(frozen=True)
class Place:
    """Which stream, and how it is reached: plain values, so that Spark can carry them to its workers.

    Attributes:
        connection: id of the AWS connection; empty: the machine's own identity.
        connections: folder of the connections.
    """

    name: str
    region: str
    connection: str = ""
    connections: str = ""

    def options(self) -> dict[str, str]:
        """As options of a Spark data source."""
        return {"stream": self.name, "region": self.region, "connection": self.connection,
                "connections": self.connections}  # fmt: skip

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Place:
        """What `options` gave."""
        return cls(options["stream"], options["region"], options.get("connection", ""), options.get("connections", ""))

    @property
    def holder(self) -> account.Account:
        """Whose keys it is reached with.

        Raises:
            SpecError: the connection is not in order.
        """
        return account.find(self.connection or None, Path(self.connections) if self.connections else None)

    def client(self) -> Any:
        """A client of boto3, with the keys as they are now: one a process until they change, for making one is dear.

        Raises:
            SpecError: the connection is not in order.
        """
        found = self.holder
        return _client(self, found, 0 if found.file is None else found.file.stat().st_mtime_ns)

    def connect(self, found: account.Account, patience_s: float | None = None) -> Any:
        """A client of an account; with `patience_s` one that asks once and waits no longer than that."""
        import boto3
        from botocore.config import Config

        keys = found.keys()
        given = {name: keys[name] for name in (KEY, SECRET, TOKEN) if name in keys}
        how = Config(
            connect_timeout=patience_s or 5,
            read_timeout=patience_s or 20,
            retries={"mode": "standard", "total_max_attempts": 5 if patience_s is None else 1},
        )
        return boto3.session.Session(**given).client(
            "kinesis", region_name=self.region, endpoint_url=found.endpoint, config=how
        )


@lru_cache(maxsize=8)
def _client(place: Place, found: account.Account, version: int) -> Any:
    return place.connect(found)


Row = tuple[Any, ...]
"""Of `datasource.COLUMNS`, in order."""


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


class Stream:
    """Reads one stream. Not for several threads."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @cached_property
    def _client(self) -> Any:
        return self.place.client()

    def summary(self) -> tuple[str, int]:
        """An id that changes when the stream is deleted and made again, and its retention in milliseconds."""
        found = self._client.describe_stream_summary(StreamName=self.place.name)["StreamDescriptionSummary"]
        made = int(found["StreamCreationTimestamp"].timestamp() * 1000)
        return f"{found['StreamARN']}/{made}", int(found["RetentionPeriodHours"]) * 3_600_000

    def shards(self) -> dict[str, Shard]:
        """Every shard that still has records, or can get some."""
        found: dict[str, Shard] = {}
        asked: dict[str, str] = {"StreamName": self.place.name}
        while True:
            page = self._client.list_shards(**asked)
            for each in page["Shards"]:
                parents = tuple(each[key] for key in ("ParentShardId", "AdjacentParentShardId") if each.get(key))
                closed = "EndingSequenceNumber" in each["SequenceNumberRange"]
                found[each["ShardId"]] = Shard(each["ShardId"], parents, closed)
            if not page.get("NextToken"):
                return found
            asked = {"NextToken": page["NextToken"]}

    def iterator(self, shard: str, after: ShardOffset) -> str:
        """Where reading a shard begins."""
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
        found = self._client.get_shard_iterator(StreamName=self.place.name, ShardId=shard, **kind)
        return str(found["ShardIterator"])

    def records(self, iterator: str, most: int) -> Answer | None:
        """The next records; None where the iterator is too old (five minutes)."""
        from botocore.exceptions import ClientError

        try:
            found = self._client.get_records(ShardIterator=iterator, Limit=min(most, MOST))
        except ClientError as error:
            if error.response["Error"]["Code"] == _EXPIRED:
                return None
            raise
        return Answer(found["Records"], found.get("NextShardIterator"), found.get("MillisBehindLatest") == 0)

    def has(self, shard: str, sequence: str) -> bool:
        """Whether a record that was read can still be read: then nothing after it is gone."""
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
            if error.response["Error"]["Code"] not in (_GONE, "InvalidArgumentException"):
                raise
        return False

    def between(self, shard: str, first: ShardOffset, last: ShardOffset) -> Iterator[Mapping[str, Any]]:
        """The records after one mark, up to another, in the shard's order: the same ones whenever it is asked.

        Raises:
            LookupError: the last one is not there any more.
        """
        end = None if last.sequence is None else int(last.sequence)
        closed = False
        here, iterator = first, self.iterator(shard, first)
        while True:
            answer = self.records(iterator, MOST)
            if answer is None:
                iterator = self.iterator(shard, here)
                continue
            for record in answer.records:
                number = int(record["SequenceNumber"])
                if end is not None and number > end:
                    raise LookupError(self._missing(shard, last))
                yield record
                here = ShardOffset(record["SequenceNumber"])
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
