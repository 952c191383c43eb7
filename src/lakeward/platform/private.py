"""Private files, readable by their owner only: passwords, tokens, keys, and configurations that contain them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def folder(path: Path) -> Path:
    """Create the folder `path` with mode 0700 and return it."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write(file: Path, text: str) -> Path:
    """Write `text` to a 0600 file atomically: a reader gets the old or the new text."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return file


def update(file: Path, text: str) -> None:
    """Write `text` unless the file has it already; the folder gets mode 0700."""
    if not file.exists() or file.read_text() != text:
        write(folder(file.parent) / file.name, text)
