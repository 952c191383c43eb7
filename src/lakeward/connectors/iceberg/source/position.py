"""The offset of an Iceberg source, in Iceberg's own form: a snapshot and how many of its new files were read."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.offsets import canonical_json

_NONE = -1


@dataclass(frozen=True)
class Offset:
    """Up to where (exclusive) a table is read.

    Attributes:
        snapshot: the snapshot that is being read, or was read; None for a table that had none yet.
        files: how many of its added data files were read. More than it added means all.
    """

    snapshot: int | None
    files: int = 0

    @property
    def text(self) -> str:
        """The offset as in Iceberg's source and in a position: canonical JSON."""
        start = self.snapshot is None
        return canonical_json(
            json.dumps(
                {
                    "version": 1,
                    "snapshot_id": _NONE if start else self.snapshot,
                    "position": _NONE if start else self.files,
                    "scan_all_files": False,
                }
            )
        )

    @property
    def before(self) -> str:
        """The text of the offset just before the snapshot's first file: no batch ends there."""
        return self.text if self.snapshot is None else Offset(self.snapshot, _NONE).text


def parse(text: str) -> Offset:
    """Parse an offset.

    Raises:
        ValueError: the text has another form.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or "snapshot_id" not in document or document.get("scan_all_files"):
        raise ValueError(f"not an offset of an Iceberg source: {text}")
    snapshot = int(document["snapshot_id"])
    return Offset(None) if snapshot == _NONE else Offset(snapshot, int(document.get("position", 0)))


def snapshot_of(text: str) -> int | None:
    """The snapshot of an offset; None if it has none, or if the text is not an offset of an Iceberg source."""
    try:
        return parse(text).snapshot
    except ValueError:
        return None
