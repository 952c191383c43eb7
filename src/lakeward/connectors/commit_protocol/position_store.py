"""Where the position of one stream is stored, for everything that runs without Spark: operations, reports, the audit.

Each system that lands exactly has one implementation. The writer of a batch commits the position together with its
rows; a store moves it alone, by the same compare-and-set, so a driver that lands meanwhile is fenced by it.
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
"""How often a move is tried again while other writers of the table commit first."""


@dataclass(frozen=True)
class StoredPosition:
    """One stream's position as it was read.

    Attributes:
        raw: the stored text, which the compare-and-set compares; None: nothing landed yet.
        position: `raw`, parsed.
        halt: why no batch may land here, whatever the batch: rows that the position calls landed are gone, or there is
            no table.
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
        name: the table or folder, as people write it.
    """

    stream: str
    name: str

    @abstractmethod
    def read(self) -> StoredPosition:
        """The position now.

        Raises:
            Blocked: it cannot be parsed.
            DependencyDown: the system does not answer.
        """

    def compare_and_set(self, expected: StoredPosition, moved: Position) -> Position:
        """Store `moved` if the position is still `expected`; what was stored, which names the table's new version.

        Raises:
            Fenced: a driver landed a batch meanwhile; nothing was changed.
            Refused: `seq` would not rise, or this store cannot move a position.
            Transient: other writers of the table came first too often; nothing was changed.
        """
        before = expected.position
        if before is not None and moved.seq <= before.seq:
            raise seq_falls(self.stream, before, moved)
        return self._swap(expected, moved)

    @abstractmethod
    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        """As `compare_and_set`, for a `seq` that rises."""

    @abstractmethod
    def scan(self) -> Scan:
        """Reads the source positions of the rows."""

    @property
    def location(self) -> str | None:
        """The folder of the table; None where it has none."""
        return None


def moved_meanwhile(stream: str, why: str) -> Fenced:
    """The error of a compare-and-set that lost."""
    return Fenced(
        f"The position of stream {stream} moved meanwhile",
        why=why,
        next=f"stop the stream first: lakeward streams stop {stream} --wait",
        code="LW-3019",
    )


def seq_falls(stream: str, before: Position, moved: Position) -> Refused:
    """The error of a move that would not fence a driver."""
    return Refused(
        f"The position of stream {stream} cannot go from seq {before.seq} to {moved.seq}",
        why="seq only rises, also through reset and import: a driver cut off from the registry is fenced by it",
        code="LW-3020",
    )


def missing(name: str, stream: str) -> BlockReason:
    """There is no table."""
    return BlockReason(
        "table-missing",
        f"Table {name} does not exist",
        "nothing was landed in it, or it was removed",
        f"lakeward streams status {stream}   says whether anything was landed in it",
        code="LW-3021",
    )
