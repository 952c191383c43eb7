"""`PositionStore`: reads and moves the position of a stream without Spark, for operations, reports and the audit.

Each system that lands exactly once has one implementation. The writer of a batch commits the position together with the
rows. A store moves the position alone, by the same compare-and-set, so a driver that lands at the same time is fenced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import Position
from lakeward.platform.errors import Fenced, Refused

SWAP_ATTEMPTS = 10
"""The most attempts of a move while other writers of the table commit first."""


@dataclass(frozen=True)
class StoredPosition:
    """The position of a stream, with what the compare-and-set needs.

    Attributes:
        raw: the stored text, which the compare-and-set compares; None if nothing has landed yet.
        position: `raw`, parsed.
        halt: why no batch may land here: landed rows are missing from the table, or the table does not exist.
        state: what else the store compares when it moves the position; only the store reads it.
    """

    raw: str | None
    position: Position | None
    halt: BlockReason | None = None
    state: Any = None


class PositionStore(ABC):
    """The position of one stream in one sink.

    Attributes:
        stream: the stream's id.
        name: the table or folder, as users write it.
    """

    stream: str
    name: str

    @abstractmethod
    def read(self) -> StoredPosition:
        """Read the position.

        Raises:
            Blocked: the position cannot be parsed.
            DependencyDown: the system does not answer.
        """

    def compare_and_set(self, expected: StoredPosition, moved: Position) -> Position:
        """Store `moved` if the position is still `expected`; returns the stored position with the table's new version.

        Raises:
            Fenced: a driver landed a batch in between; nothing was changed.
            Refused: `seq` would not rise, or this store cannot move a position.
            Transient: other writers committed first at every attempt; nothing was changed.
        """
        before = expected.position
        if before is not None and moved.seq <= before.seq:
            raise seq_falls(self.stream, before, moved)
        return self._swap(expected, moved)

    @abstractmethod
    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """Do `compare_and_set`, with a `seq` that rises."""

    @abstractmethod
    def scan(self) -> Scan:
        """A function that reads the source positions of the rows."""

    @property
    def location(self) -> str | None:
        """The folder of the table; None if it has no folder."""
        return None


def moved_meanwhile(stream: str, why: str) -> Fenced:
    """The error of a compare-and-set that failed because the position moved."""
    return Fenced(
        f"Stream {stream}: fenced. Another writer moved its position",
        why=why,
        next=f"stop the stream first: lakeward streams stop {stream} --wait",
        code="LW-3019",
    )


def seq_falls(stream: str, before: Position, moved: Position) -> Refused:
    """The error of a move that would not raise `seq`, and so would not fence a driver."""
    return Refused(
        f"The position of stream {stream} cannot go from seq {before.seq} to {moved.seq}",
        why="seq only rises, also through reset and import: it fences a driver that is cut off from the registry",
        code="LW-3020",
    )


def missing(name: str, stream: str) -> BlockReason:
    """The block reason of a table that does not exist."""
    return BlockReason(
        "table-missing",
        f"Table {name} does not exist",
        "nothing has landed in it yet, or it was dropped",
        f"lakeward streams status {stream}   shows whether anything has landed",
        code="LW-3021",
    )
