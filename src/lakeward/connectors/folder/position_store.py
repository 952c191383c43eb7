"""The position of a stream in a folder of files: in the newest batch's folder, which is its compare-and-set."""

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
    """The position of the one stream that writes a folder. It is read here; only a batch moves it."""

    path: Path
    stream: str

    @property
    def name(self) -> str:  # type: ignore[override]  # the ABC declares it as a plain attribute
        return str(self.path)

    def read(self) -> StoredPosition:
        """The newest batch's position. A folder that is not there has none: the first batch makes it."""
        at = store.newest(self.path, self.stream)
        return StoredPosition(None if at is None else at.to_json(), at)

    def _swap(self, expected: StoredPosition, moved: Position) -> Position:
        raise self._refused("the position in its folder is moved by its batches alone")

    def scan(self) -> Scan:
        raise self._refused("the rows of a folder are not read back: csv and json files do not say their types")

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"The position of stream {self.stream} in {self.path} cannot be moved", why=why,
            next="put a lost checkpoint back from a copy",
         code="LW-3060")  # fmt: skip

    @property
    def location(self) -> str | None:
        return str(self.path)
