"""The position form of a table that is read: Iceberg's own, a snapshot and how many of its new files are taken."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.offsets import canonical_json

_NONE = -1


@dataclass(frozen=True)
class Offset:
    """Up to where (exclusive) a table is read.

    Attributes:
        snapshot: the snapshot that is under way, or done; None for a table that had none yet.
        files: how many of the data files it added are taken. More than it added is the same as all.
    """

    snapshot: int | None
    files: int = 0

    @property
    def text(self) -> str:
        """As Iceberg's source and a position have it: canonical JSON."""
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
        """The text of a place just before the snapshot's first file: no batch ever ends there."""
        return self.text if self.snapshot is None else Offset(self.snapshot, _NONE).text


def parse(text: str) -> Offset:
    """Read a position.

    Raises:
        ValueError: it is none of this form.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or "snapshot_id" not in found or found.get("scan_all_files"):
        raise ValueError(f"this is no position in an Iceberg table: {text}")
    snapshot = int(found["snapshot_id"])
    return Offset(None) if snapshot == _NONE else Offset(snapshot, int(found.get("position", 0)))


def snapshot_of(text: str) -> int | None:
    """The snapshot a position names; None where it names none, or is no position in an Iceberg table."""
    try:
        return parse(text).snapshot
    except ValueError:
        return None
