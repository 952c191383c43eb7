"""A folder that holds a stream's batches, each in a folder of its own with the position that counts it.

`<path>/seq=000000000012/` comes into being by one rename of a folder that was written beside it (`_staging/`): its
files and its position are there together or not at all, and of two that publish the same seq one gets an error. That is
what a rename on a file system of one machine does, and what an object store does not.
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
"""In each batch's folder: the stream's id in the first line, its position behind it. Readers pass over such names."""
STAGING = "_staging"
_SEQ = "seq="
_SEQ_NAME = re.compile(rf"{_SEQ}[0-9]+")
_STALE_S = 24 * 3600.0


class Taken(Exception):
    """Raised when a batch of this seq is in the folder already."""


def folder_of(path: Path, seq: int) -> Path:
    """Where the batch of a seq stands."""
    return path / f"{_SEQ}{seq:012d}"


def newest(path: Path, stream: str) -> Position | None:
    """The position of the newest batch; None for a folder without any.

    Raises:
        Blocked: the newest batch has no position that can be read (`position-unreadable`), or is another stream's.
    """
    try:
        names = [each.name for each in path.iterdir() if _SEQ_NAME.fullmatch(each.name)]
    except FileNotFoundError:
        return None
    if not names:
        return None
    folder = path / max(names, key=lambda name: int(name[len(_SEQ) :]))
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Blocked(
            f"The position of stream {stream} is gone from {path}",
            why=f"{folder.name}, the newest batch, has no {MANIFEST}: somebody removed it",
            next=f"put it back from a copy, then: lakeward streams start {stream}",
            reason="position-unreadable",
            code="LW-3062",
        ) from None
    owner, _, rest = text.partition("\n")
    if owner != stream:
        raise Blocked(
            f"Folder {path} holds batches of stream {owner}",
            why=f"a folder has one writer, and {stream} would count on where {owner} stopped",
            next=f"name another path in conf/streams/{stream}.yaml, then: lakeward deploy",
            reason="diverged",
            code="LW-3061",
        )
    return position.parse(rest, stream, str(path))


def prepare(path: Path, stream: str) -> None:
    """Make the folder, and remove what died half way long ago.

    Raises:
        SpecError: it holds something else than batches, or cannot be made.
    """
    try:
        (path / STAGING).mkdir(parents=True, exist_ok=True)
        strangers = sorted(each.name for each in path.iterdir() if not each.name.startswith((_SEQ, "_", ".")))
        if strangers:
            raise SpecError(
                f"Folder {path} of stream {stream} holds something else",
                why=f"readers would take it for rows: {', '.join(strangers[:5])}",
                next=f"name a folder of its own in conf/streams/{stream}.yaml, then: lakeward deploy",
                code="LW-3063",
            )
        for left in (path / STAGING).iterdir():
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise SpecError(
            f"Folder {path} of stream {stream} cannot be written", why=str(error),
            next=f"correct path: in conf/streams/{stream}.yaml, or its rights, then: lakeward streams start {stream}",
         code="LW-3064") from None  # fmt: skip


def publish(staged: Path, path: Path, stream: str, at: Position) -> None:
    """Make a staged folder the batch of its seq, on disk and for every reader at once.

    Raises:
        Taken: there is one.
    """
    (staged / MANIFEST).write_text(f"{stream}\n{at.to_json()}", encoding="utf-8")
    for file in staged.rglob("*"):
        _to_disk(file)
    _to_disk(staged)
    try:
        staged.rename(folder_of(path, at.seq))  # refused by the system where a folder with something in it is
    except OSError as error:
        if folder_of(path, at.seq).exists():
            raise Taken(f"seq {at.seq} is in {path} already") from error
        raise
    _to_disk(path)


def discard(staged: Path) -> None:
    """Remove a staged folder that was not published."""
    with suppress(OSError):
        shutil.rmtree(staged)


def _to_disk(place: Path) -> None:
    """After a power cut the checkpoint must not know of files that are not there."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
