"""Source of a stream: the interface by which a driver reads and decodes a source and checks its positions.

Each connector has one class; `lakeward.connectors.source_types` chooses it. A connector without ids or end offsets
keeps the default methods: then only the position is compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform.errors import LakewardError
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.model.sources import Isolation, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE = "_value"
"""The bytes of a record, before they are decoded."""
REASON, ERROR, RAW = "_lw_reason", "_lw_error", "_lw_raw"
"""Columns of a decoded row until rows are routed to sink or quarantine; all null in a valid row."""
DOUBT = "doubt"
"""The reason of a record that `decode_fast` leaves to `decode_doubtful`; never in a quarantine table."""


class Reader(Protocol):
    """Reads the files of a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty if the folder does not exist."""
        ...

    def text(self, file: str) -> str | None:
        """A file's text, None if it does not exist."""
        ...


@dataclass(frozen=True)
class LagProbe:
    """A cluster and its topics, whose end offsets are read outside of any query to measure lag.

    `isolation`: at which the query reads; it decides what the end is (`kafka.broker.end_offsets`). `mirrored`: whether
    landed offsets are copied to a consumer group.
    """

    cluster: Cluster
    topics: tuple[str, ...]
    isolation: Isolation = "read_committed"
    mirrored: bool = False


@dataclass
class StreamSource(ABC):
    """One source of one stream.

    Attributes:
        name: the source's name in the spec.
        spec: the spec.
    """

    name: str
    spec: Source

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of the quarantine table that identify one record."""
        return IDENTITY_COLUMNS[self.spec.connector]

    @property
    def record(self) -> tuple[str, ...]:
        """The columns of a raw record that `decode` reads, besides the position columns; empty if a record cannot be
        reconstructed from the quarantine table."""
        return ()

    @property
    def traces(self) -> tuple[str, ...]:
        """The columns by which a row of the transform identifies its source record."""
        return self.identity

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns of a decoded record that are written to quarantine and hidden from the transform."""
        return ()

    @property
    def checked(self) -> bool:
        """Whether `committed`, `before_reading` and `before_landing` check anything."""
        return False

    def prepare(self) -> None:
        """Check the decoder before the query starts.

        Raises:
            SpecError: the decoder is not implemented, or Spark cannot parse the declared columns.
        """
        return

    @property
    def reads(self) -> frozenset[str]:
        """The topics that the source reads by name; empty for a pattern, and for sources without topics."""
        return frozenset()

    def ids(self) -> dict[str, str]:
        """Topic, stream or table -> an id that changes when it is deleted and created again.

        Raises:
            DependencyDown: the source does not answer.
            SpecError: the topic, stream or table of the spec does not exist.
        """
        return {}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        """Check that the source still has the records after a position.

        Args:
            at: the position.
            known: the keys of `ids`, of all sources of the stream.

        Raises:
            Blocked: records that have not landed were removed from the source.
        """
        return

    def gauge(self, at: str) -> LagProbe | None:
        """The probe that measures lag after a position; None if the source has no end offsets."""
        return None

    @property
    def replays(self) -> bool:
        """Whether the range between two positions can be read a second time, with `again`."""
        return True

    @property
    def begins(self) -> bool:
        """Whether the initial offset is in the checkpoint before the first batch."""
        return True

    @property
    def begins_fixed(self) -> bool:
        """Whether the spec names the same beginning at every start, so that the checkpoint need not have it."""
        return False

    @property
    def resumes(self) -> bool:
        """Whether a start continues from the last checkpoint; otherwise each start begins with a new checkpoint."""
        return True

    @property
    def logged(self) -> bool:
        """Whether a new checkpoint continues from a position through `restored`, and not through `begin` of `read`."""
        return False

    def restorable(self, position: str, beside: str | None) -> bool:
        """Whether a new checkpoint can continue from a position of the table.

        Args:
            beside: the table's folder; None for a sink that is no table of the lake.
        """
        return True

    def opened(self, files: Reader, folder: str, beside: str | None) -> None:
        """Called when the query's plan is known.

        Args:
            files: reads the checkpoint.
            folder: the folder of this source in the checkpoint.
            beside: the folder of the table; None if the sink is not a table.
        """
        return

    def restored(self, position: str, folder: str) -> str:
        """Write the source's files for `position` into the checkpoint folder `folder`; returns Spark's offset.

        Raises:
            Blocked: the files for this position are missing.
        """
        return position

    def canonical(self, offset: str) -> str:
        """Spark's offset in the canonical form that is compared and stored."""
        return canonical_json(offset)

    @abstractmethod
    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        """Raw records as a stream, with the position columns.

        Args:
            fresh: whether the checkpoint is new; `begin` applies only then.
            begin: the position from which a new checkpoint continues; None: the starting offsets of the spec.
        """

    @abstractmethod
    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        """The raw records of a range as a batch: after position `start`, up to position `end`."""

    def most(self, start: str, end: str) -> int | None:
        """The most records that a range can hold, by its positions alone; None if they do not say it."""
        return None

    def newest(self, session: SparkSession, most: int) -> DataFrame | None:
        """The newest raw records as a batch, for a preview; None if they are fetched outside of Spark."""
        return None

    @abstractmethod
    def decode(self, raw: DataFrame) -> DataFrame:
        """Raw records with their columns, the position columns and REASON, ERROR, RAW; exactly one row per record."""

    @property
    def decodes_twice(self) -> bool:
        """Whether `decode_fast` leaves records to `decode_doubtful`."""
        return False

    def decode_fast(self, raw: DataFrame) -> DataFrame:
        """As `decode`, with a smaller plan: a record whose values are in doubt has REASON `DOUBT` and its bytes."""
        return self.decode(raw)

    def decode_doubtful(self, doubtful: DataFrame) -> DataFrame:
        """The records that `decode_fast` left in doubt, as `decode` returns them.

        Args:
            doubtful: rows of `decode_fast` whose REASON is `DOUBT`.
        """
        return doubtful

    def explain(self, bad: DataFrame) -> DataFrame:
        """Records that `decode` rejected, with the position columns, and REASON, ERROR and RAW as quarantined."""
        return bad

    def may_start(self, stream: str) -> None:
        """Called when the source is opened, before the query starts.

        Raises:
            Blocked: what follows a batch would take files of others.
        """
        return

    def committed(self, stream: str, start: str) -> None:
        """Called when a batch begins: Spark has committed all batches before it.

        Args:
            start: the position where the batch begins.

        Raises:
            Blocked: what follows a committed batch would take files of others.
        """
        return

    def before_reading(self, stream: str, start: str, end: str) -> None:
        """Check the range of a batch, inside the batch, before it is read.

        Args:
            start, end: positions.

        Raises:
            Blocked: the range cannot be read as declared.
        """
        return

    def failed_to_read(self, stream: str, text: str, start: str, end: str) -> LakewardError | None:
        """A failure of a batch that lies in what this source reads, with words; None if it lies elsewhere.

        Args:
            text: the errors from the outermost to the innermost, with their types, a line each.
            start, end: positions of the batch.
        """
        return None

    def before_landing(self, stream: str, start: str, end: str, listed: Collection[str]) -> None:
        """Check what a batch has read, before it lands.

        Args:
            start, end: positions.
            listed: URLs of the files that the batch's plan reads, of all sources.

        Raises:
            Blocked: the batch did not read everything between the positions.
        """
        return
