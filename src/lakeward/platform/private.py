"""Private files, readable by their owner only: passwords, tokens, keys, and configurations that contain them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def folder(path: Path) -> Path:
    """Make `path` a folder of mode 0700 and return it."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write(file: Path, text: str) -> Path:
    """Write `text` to a 0600 file in one step: a reader meets the old or the new text, never half of it."""
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
    """Write `text` unless it stands there already; the folder is made private with it."""
    if not file.exists() or file.read_text() != text:
        write(folder(file.parent) / file.name, text)
