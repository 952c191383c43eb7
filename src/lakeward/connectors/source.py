"""A source of a stream, as the driver sees it: how it is reached, read and decoded, and what it says of a position.

One small class a connector; `lakeward.connectors.source_types` picks it. What a connector cannot say it leaves out:
then nobody asks (no ids, no ends), and the position alone decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.model.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE = "_value"
"""The bytes of a record, before they are decoded."""
REASON, ERROR, RAW = "_lw_reason", "_lw_error", "_lw_raw"
"""Columns a decoded row carries until rows are split: null, null, null for a good one."""


class Reader(Protocol):
    """What reads a checkpoint's files."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        ...

    def text(self, file: str) -> str | None:
        """A file's text, None if it does not exist."""
        ...


@dataclass(frozen=True)
class LagProbe:
    """Where the ends of a source are asked for, outside of any query: a cluster and its topics."""

    cluster: Cluster
    topics: tuple[str, ...]


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
        """The columns of a raw record that `decode` reads, besides those of its position; none where a record cannot
        be had back from the quarantine table."""
        return ()

    @property
    def traces(self) -> tuple[str, ...]:
        """The columns by which a row of the transform names its record."""
        return self.identity

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns of a decoded record that the quarantine keeps and the transform does not see."""
        return ()

    @property
    def checked(self) -> bool:
        """Whether `before_reading` and `before_landing` have anything to say."""
        return False

    def prepare(self) -> None:
        """Raise for what cannot be decoded.

        Raises:
            SpecError: a decoder that is not built, or columns Spark does not know.
        """
        return

    @property
    def reads(self) -> frozenset[str]:
        """The topics it reads by name; none where it has none, or where a pattern gives them."""
        return frozenset()

    def ids(self) -> dict[str, str]:
        """What it reads now -> an id that changes when that is deleted and made again.

        Raises:
            DependencyDown: the source does not answer.
            SpecError: what the spec names does not exist.
        """
        return {}

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        """Whether the source still has what comes after a position.

        Args:
            at: the position.
            known: of `ids`, of the whole stream.

        Raises:
            Blocked: what was never landed is gone.
        """
        return

    def gauge(self, at: str) -> LagProbe | None:
        """Where its ends are measured, given the position it is at; None where nobody can say."""
        return None

    @property
    def replays(self) -> bool:
        """Whether a range between two positions can be read `again`."""
        return True

    @property
    def begins(self) -> bool:
        """Whether its first place is written down in the checkpoint before the first batch."""
        return True

    @property
    def resumes(self) -> bool:
        """Whether a start can go on where the last one stopped; else each begins with a checkpoint of its own."""
        return True

    @property
    def logged(self) -> bool:
        """Whether a new checkpoint goes on at a position only by `restored`, not by `begin`."""
        return False

    def opened(self, files: Reader, folder: str, beside: str | None) -> None:
        """The query's plan is known.

        Args:
            files: reads the checkpoint.
            folder: where the checkpoint keeps what belongs to this source.
            beside: the folder of the table; None where the sink is none.
        """
        return

    def restored(self, position: str, folder: str) -> str:
        """Put what a checkpoint needs to stand at `position` into `folder`; gives Spark's offset of it.

        Raises:
            Blocked: it is not there any more.
        """
        return position

    def canonical(self, offset: str) -> str:
        """Spark's text of an offset as the one text that is compared and kept."""
        return canonical_json(offset)

    @abstractmethod
    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        """Raw records as a stream, with the position columns.

        Args:
            fresh: the checkpoint is new: only then does a beginning mean anything.
            begin: a position that a new checkpoint has to go on from; None: the beginning the spec says.
        """

    @abstractmethod
    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        """The same raw records as a batch: after position `start`, up to position `end`."""

    def newest(self, session: SparkSession, most: int) -> DataFrame | None:
        """The newest raw records as a batch, for a preview; None where they are fetched outside of Spark."""
        return None

    @abstractmethod
    def decode(self, raw: DataFrame) -> DataFrame:
        """Raw records with their columns, the position columns and REASON, ERROR, RAW. No row more or less."""

    def explain(self, bad: DataFrame) -> DataFrame:
        """Records that `decode` found bad, with the position columns, REASON, ERROR and RAW as they are kept aside."""
        return bad

    def before_reading(self, stream: str, start: str, end: str) -> None:
        """A look at what a batch is to read, inside the batch.

        Args:
            start, end: positions.

        Raises:
            Blocked: it cannot be read as declared.
        """
        return

    def before_landing(self, stream: str, start: str, end: str, listed: Collection[str]) -> None:
        """A look at what a batch has read, before it lands.

        Args:
            start, end: positions.
            listed: URLs of the files that the batch's plan reads, of all sources.

        Raises:
            Blocked: that is not everything between the positions.
        """
        return
