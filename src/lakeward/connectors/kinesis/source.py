"""`KinesisStreamSource`: a Kinesis stream as a source of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakeward.connectors.aws import account
from lakeward.connectors.aws.boto import require_boto3
from lakeward.connectors.kinesis import continuity, shard_offsets
from lakeward.connectors.kinesis.shard_offsets import HORIZON, ShardOffset
from lakeward.connectors.kinesis.stream import Place, Stream
from lakeward.connectors.record_source import RecordSource
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.sources import KinesisSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Answer = TypeVar("_Answer")
_REFUSED = (
    "AccessDenied", "UnrecognizedClient", "InvalidSignature", "IncompleteSignature",
    "MissingAuthenticationToken", "InvalidClientTokenId", "SignatureDoesNotMatch", "KMSAccessDenied",
)  # fmt: skip
_ACTIONS = "kinesis:DescribeStreamSummary, ListShards, GetShardIterator, GetRecords"


def place_of(source: KinesisSource, runtime: Runtime) -> Place:
    """The address and connection of a Kinesis stream.

    Raises:
        SpecError: boto3 is not installed, or the connection does not exist or is not valid.
    """
    require_boto3("A Kinesis source", "kinesis")
    account.find(source.connection, runtime.connections)
    folder = "" if runtime.connections is None else str(runtime.connections)
    return Place(str(source.stream), str(source.region), str(source.connection or ""), folder)


@dataclass
class KinesisStreamSource(RecordSource):
    """Records of one Kinesis stream."""

    place: Place

    @property
    def kinesis(self) -> KinesisSource:
        """The connector's part of the spec."""
        return expect(self.spec.kinesis, "a source `kinesis`")

    @property
    def undecoded(self) -> str:
        return "_kinesis_value"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.place.name})

    @property
    def begins_fixed(self) -> bool:
        where = self.kinesis.starting_position
        return where == HORIZON or where.moment_ms is not None

    def ids(self) -> dict[str, str]:
        return {self.place.name: self._request(lambda stream: stream.summary()[0])}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        self._request(lambda source: continuity.check(stream, source, at, time.time()))

    def canonical(self, offset: str) -> str:
        return shard_offsets.canonical(offset)

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        from lakeward.connectors.kinesis import datasource

        session.dataSource.register(datasource.KinesisSource)
        options = self.place.options() | {
            datasource.MOST: str(self.kinesis.max_records_per_trigger),
            datasource.START: begin or str(self._start()),
        }
        return _shape(session.readStream.format(datasource.NAME).options(**options).load())

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        from lakeward.connectors.kinesis import datasource

        session.dataSource.register(datasource.KinesisSource)
        options = self.place.options() | {datasource.START: start, datasource.END: end}
        return _shape(session.read.format(datasource.NAME).options(**options).load())

    def newest(self, session: SparkSession, most: int) -> DataFrame:
        from lakeward.connectors.kinesis import datasource, sample

        rows = self._request(lambda stream: sample.newest(stream, most, time.time()))
        return _shape(session.createDataFrame(rows, datasource.COLUMNS))

    def _start(self) -> ShardOffset:
        where = self.kinesis.starting_position
        if where == HORIZON:
            return ShardOffset(HORIZON)
        moment = where.moment_ms
        return ShardOffset.at(int(time.time() * 1000) if moment is None else moment)

    def _request(self, question: Callable[[Stream], _Answer]) -> _Answer:
        """Send requests to Kinesis from the driver, without a query.

        Raises:
            SpecError: the stream does not exist, or Kinesis refuses access.
            DependencyDown: Kinesis does not answer.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return question(Stream(self.place))
        except ClientError as error:
            raise self._error(str(error.response["Error"]["Code"])) from None
        except BotoCoreError as error:
            raise self._error(type(error).__name__) from None

    def _error(self, code: str) -> LakewardError:
        where = account.find(self.place.connection or None, self._folder).where
        at = f"{self.place.name} in {self.place.region}: {code}, as {where}"
        if code.startswith("ResourceNotFound"):
            return SpecError(
                f"Kinesis stream {self.place.name} does not exist",
                why=at,
                next="create it, or correct kinesis: stream: and region:, then: lakeward deploy",
                code="LW-3126",
            )
        if code.startswith("ExpiredToken"):
            return DependencyDown(
                f"The credentials for Kinesis stream {self.place.name} have expired",
                why=at,
                next="renew the session token of that connection; the stream retries by itself and loses nothing",
                code="LW-3433",
            )
        if code.startswith(_REFUSED) or code in ("NoCredentialsError", "PartialCredentialsError"):
            return SpecError(
                f"Kinesis refused access to stream {self.place.name}",
                why=at,
                next=f"correct the access key, or grant {_ACTIONS}",
                code="LW-3127",
            )
        return DependencyDown(
            "Kinesis does not answer",
            why=at,
            next="check Kinesis and the network; streams retry by themselves and lose nothing",
            code="LW-3125",
        )

    @property
    def _folder(self) -> Path | None:
        return Path(self.place.connections) if self.place.connections else None


def _shape(raw: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    # In a streaming plan this is the batch's timestamp, the same for every task and every retry.
    return raw.withColumn(INGESTED_AT, F.current_timestamp())
