"""`Restorable`: a table as one restore reads and moves it. One class for each format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.platform.text import instant

MARKER = "lakeward.restore"
"""Table property or domain: a `Marker` as JSON, from the commit until every stream has its new checkpoint."""


class Restorable(Protocol):
    """A table as it was read at one moment.

    Attributes:
        name: `namespace.table`.
        format: the key of its sink in a stream's spec.
        noun: the word for one of its states: snapshot or version.
        properties: positions of streams and the marker, by name.
        verified_name: how `verified` is called in texts.
    """

    name: str
    format: str
    noun: str
    verified_name: str

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def head(self) -> int | None:
        """The newest snapshot of main."""

    @property
    def history(self) -> str:
        """The command that lists its history."""

    def look_up(self, snapshot: int) -> Link | None:
        """A snapshot; None if it has expired."""

    def moment(self, snapshot: int) -> str:
        """When a snapshot was committed."""

    def records(self, snapshot: int | None) -> int:
        """Rows of the table at a snapshot."""

    def effect(self, snapshot: int) -> str:
        """What one commit added and removed."""

    def check(self, to: int) -> None:
        """Raises:
        Refused: the table cannot be taken to that snapshot.
        """

    def moved(self, to: int) -> dict[str, int]:
        """The fields `snapshot` and `snapshot_seq` of a position that the restore moves."""

    def verified(self, connection: Connection) -> int | None:
        """The verified snapshot now."""

    def proven(self, connection: Connection) -> set[int]:
        """The snapshots that a quality run proved."""

    def read_up_to(self, offset: str) -> int | None:
        """The last snapshot that a reader has read by its offset; None if the offset is of another source."""

    def move(self, to: int, properties: Mapping[str, str | None], verified: int | None, attempt: str) -> None:
        """Commit the rollback on exactly what was read.

        Args:
            properties: name -> its new value; None removes it.
            verified: the new verified snapshot, if the format stores it.
            attempt: names the restore, if the format has a place for it.

        Raises:
            Fenced: another commit came first; nothing was changed.
        """

    def forget(self, marker: str) -> None:
        """Remove the marker, if the table still has this one."""


def moment_text(at_ms: int) -> str:
    """A time in milliseconds since 1970, for people."""
    return f"{instant(at_ms):%Y-%m-%d %H:%M:%S} UTC"
