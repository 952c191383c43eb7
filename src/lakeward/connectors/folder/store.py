"""Storage of a file sink: one subfolder for each batch, with its files and the stream's position.

`<path>/seq=000000000012/` is created by renaming a folder written in `_staging/`. The rename is atomic: files and
position appear together, and of two writers of one seq the second gets an error. This holds on a local file system, not
on an object store.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.platform.errors import Blocked, SpecError

MANIFEST = "_lakeward_position"
"""File in each batch folder: the stream id in the first line, then its position. Readers skip such names."""
STAGING = "_staging"
_SEQ = "seq="
_SEQ_NAME = re.compile(rf"{_SEQ}[0-9]+")
_STALE_S = 24 * 3600.0


class Taken(Exception):
    """Raised when the folder already has a batch with this seq."""


def folder_of(path: Path, seq: int) -> Path:
    """The folder of the batch with a seq."""
    return path / f"{_SEQ}{seq:012d}"


def newest(path: Path, stream: str) -> Position | None:
    """The position of the newest batch; None without a batch.

    Raises:
        Blocked: the position of the newest batch cannot be read (`position-unreadable`), or it is of another stream.
    """
    try:
        names = [item.name for item in path.iterdir() if _SEQ_NAME.fullmatch(item.name)]
    except FileNotFoundError:
        return None
    if not names:
        return None
    folder = path / max(names, key=lambda name: int(name[len(_SEQ) :]))
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Blocked(
            f"The position of stream {stream} is missing in folder {path}",
            why=f"the newest batch, {folder.name}, has no file {MANIFEST}",
            next=f"restore the file from a backup, then: lakeward streams start {stream}",
            reason="position-unreadable",
            code="LW-3062",
        ) from None
    owner, _, rest = text.partition("\n")
    if owner != stream:
        raise Blocked(
            f"Folder {path} belongs to stream {owner}",
            why=f"a folder has one writer, and stream {stream} would continue the count of {owner}",
            next=f"give the stream a new id and a new folder (conf/streams/{stream}.yaml), then: lakeward deploy",
            reason="diverged",
            code="LW-3061",
        )
    return position.parse(rest, stream, str(path), position.KeptIn.FILE)


def prepare(path: Path, stream: str) -> None:
    """Create the folder, and remove staged folders older than a day that were never published.

    Raises:
        SpecError: it contains other files than batches, is inside a table, or cannot be created.
    """
    try:
        if table := _table_around(path):
            raise SpecError(
                f"Folder {path} of stream {stream} is inside a table of the lake",
                why=f"{table} is the folder of a table, whose maintenance deletes files that the table does not name",
                next=f"name a folder outside the lake in conf/streams/{stream}.yaml, then: lakeward deploy",
                code="LW-3532",
            )
        (path / STAGING).mkdir(parents=True, exist_ok=True)
        foreign = sorted(item.name for item in path.iterdir() if not item.name.startswith((_SEQ, "_", ".")))
        if foreign:
            raise SpecError(
                f"Folder {path} of stream {stream} contains foreign files",
                why=f"readers would read them as rows: {', '.join(foreign[:5])}",
                next=f"name an empty folder in conf/streams/{stream}.yaml, then: lakeward deploy",
                code="LW-3063",
            )
        for staged in (path / STAGING).iterdir():
            if time.time() - staged.stat().st_mtime > _STALE_S:
                shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise SpecError(
            f"Cannot write to folder {path} of stream {stream}",
            why=str(error),
            next=f"correct the permissions of the folder, then: lakeward streams start {stream}; or correct path: in "
            f"conf/streams/{stream}.yaml, then: lakeward deploy",
            code="LW-3064",
        ) from None


def _table_around(path: Path) -> Path | None:
    """The folder of an Iceberg or Delta table that contains `path`; None if there is none."""
    real = path.resolve()
    for folder in (real, *real.parents):
        if (folder / "_delta_log").is_dir() or next((folder / "metadata").glob("*.metadata.json"), None):
            return folder
    return None


def publish(staged: Path, path: Path, stream: str, at: Position) -> None:
    """Publish a staged folder as the batch of its seq: fsync its files, then rename it.

    Raises:
        Taken: the folder already has a batch with this seq.
    """
    (staged / MANIFEST).write_text(f"{stream}\n{at.to_json()}", encoding="utf-8")
    for file in staged.rglob("*"):
        _to_disk(file)
    _to_disk(staged)
    try:
        staged.rename(folder_of(path, at.seq))  # the system refuses to replace a folder that is not empty
    except OSError as error:
        if folder_of(path, at.seq).exists():
            raise Taken(f"folder {path} already has seq {at.seq}") from error
        raise
    _to_disk(path)


def discard(staged: Path) -> None:
    """Remove a staged folder that was not published."""
    with suppress(OSError):
        shutil.rmtree(staged)


def _to_disk(place: Path) -> None:
    """fsync: after a power failure the checkpoint must not refer to files that were lost."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
