"""One batch in a checkpoint's files, read by name through the catalog's own file access: nothing is listed."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.offsets import canonical_json
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.runtime import Runtime


@dataclass(frozen=True)
class BatchFiles:
    """What a checkpoint says of one batch.

    Attributes:
        query_id: the checkpoint's; None without `metadata`.
        ends: where the batch ends, one canonical text a source in the query's order; None if it was never planned.
        finished: Spark recorded its end.
        followed: a later batch was planned.
        begins: where the one before ended; None if that is not known. Of batch 0 it is where the sources began.
    """

    query_id: str | None
    ends: tuple[str, ...] | None
    finished: bool
    followed: bool
    begins: tuple[str, ...] | None


def read(runtime: Runtime, folder: str, batch: int) -> BatchFiles:
    """Read what `folder` has of one batch."""
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
    """Where each source of the query began, in the query's order; None where that is not written down."""
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
            found = json.loads(text).get("id")
        except (ValueError, AttributeError):
            return ""
        return found if isinstance(found, str) else ""

    def offsets(self, name: str) -> tuple[str, ...] | None:
        """`v1`, a line of metadata, then a line a source."""
        text = self.text(name)
        lines = [] if text is None else text.split("\n")
        if len(lines) < 3 or not lines[0].startswith("v"):
            return None
        return tuple(NO_DATA if line.strip() == NO_DATA else canonical_json(line) for line in lines[2:] if line.strip())


def _initial(files: _Files, sources: int) -> tuple[str, ...] | None:
    """Where each source of a fresh query began: Kafka's and Iceberg's write that down before the first batch."""
    found = []
    for index in range(sources):
        text = files.text(f"sources/{index}/0") or files.text(f"sources/{index}/offsets/0")
        if text is None or "{" not in text:
            return None
        found.append(canonical_json(text[text.index("{") :].strip()))
    return tuple(found)
