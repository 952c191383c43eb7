"""Reads one batch from a checkpoint's files, by file name through PyIceberg's FileIO, without listing folders."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.runtime import Runtime


@dataclass(frozen=True)
class BatchFiles:
    """What a checkpoint records about one batch.

    Attributes:
        query_id: of the checkpoint; None without the file `metadata`.
        ends: where the batch ends: one canonical text for each source in the query's order; None if it was not planned.
        finished: Spark wrote its commit file.
        followed: a later batch was planned.
        begins: where the previous batch ended; None if not known. For batch 0: where the sources began.
    """

    query_id: str | None
    ends: tuple[str, ...] | None
    finished: bool
    followed: bool
    begins: tuple[str, ...] | None


def read(runtime: Runtime, folder: str, batch: int) -> BatchFiles:
    """Read one batch from the checkpoint in `folder`."""
    files = _Files(runtime, folder)
    ends = files.offsets(f"offsets/{batch}")
    before = files.offsets(f"offsets/{batch - 1}") if batch > 0 else _initial(files, len(ends or ()))
    return BatchFiles(
        query_id=files.query_id(),
        ends=ends,
        finished=files.text(f"commits/{batch}") is not None,
        followed=files.text(f"offsets/{batch + 1}") is not None,
        begins=before,
    )


def first(runtime: Runtime, folder: str, sources: int) -> tuple[str, ...] | None:
    """Where each source of the query began, in the query's order; None where the checkpoint does not record it."""
    return _initial(_Files(runtime, folder), sources)


class _Files:
    def __init__(self, runtime: Runtime, folder: str) -> None:
        from pyiceberg.io import load_file_io

        self.folder = folder.replace("s3a://", "s3://", 1)
        self.io = load_file_io(pyiceberg_properties(runtime.lake, runtime.pgpass), self.folder)

    def text(self, name: str) -> str | None:
        file = self.io.new_input(f"{self.folder}/{name}")
        if not file.exists():
            return None
        with file.open() as stream:
            return stream.read().decode(errors="replace")

    def query_id(self) -> str | None:
        text = self.text("metadata")
        if text is None:
            return None
        try:
            identity = json.loads(text).get("id")
        except (ValueError, AttributeError):
            return ""
        return identity if isinstance(identity, str) else ""

    def offsets(self, name: str) -> tuple[str, ...] | None:
        """The file has `v1`, a line of metadata, then one line for each source."""
        text = self.text(name)
        lines = [] if text is None else text.split("\n")
        if len(lines) < 3 or not lines[0].startswith("v"):
            return None
        return tuple(NO_DATA if line.strip() == NO_DATA else canonical_json(line) for line in lines[2:] if line.strip())


def _initial(files: _Files, sources: int) -> tuple[str, ...] | None:
    """Where each source of a new query began: Kafka's and Iceberg's record that before the first batch."""
    beginnings = []
    for index in range(sources):
        text = files.text(f"sources/{index}/0") or files.text(f"sources/{index}/offsets/0")
        if text is None or "{" not in text:
            return None
        beginnings.append(canonical_json(text[text.index("{") :].strip()))
    return tuple(beginnings)
