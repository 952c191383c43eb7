"""Position store of a file sink: the position is in the folder of the newest batch, published by a rename."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakeward.connectors.commit_protocol.audit import Scan
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.position_store import PositionStore, StoredPosition
from lakeward.connectors.folder import store
from lakeward.platform.errors import Refused


@dataclass(frozen=True)
class FolderPositionStore(PositionStore):
    """The position of the stream that writes a folder. Read only: operations cannot move it."""

    path: Path
    stream: str

    @property
    def name(self) -> str:  # type: ignore[override]  # the ABC declares it as a plain attribute
        return str(self.path)

    def read(self) -> StoredPosition:
        """The position of the newest batch; none if the folder does not exist, because the first batch creates it."""
        at = store.newest(self.path, self.stream)
        return StoredPosition(None if at is None else at.to_json(), at)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        raise self._refused("only a batch moves the position of a folder")

    def scan(self) -> Scan:
        raise self._refused("the rows of a folder cannot be read back, because csv and json files have no types")

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"Cannot move the position of stream {self.stream} in folder {self.path}", why=why,
            next="restore a lost checkpoint from a backup",
         code="LW-3060")  # fmt: skip

    @property
    def location(self) -> str | None:
        return str(self.path)
