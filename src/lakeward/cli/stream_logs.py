"""The tail of a driver's log, as far as it concerns one stream."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

READ_BYTES = 4 * 1024 * 1024
"""Of the end of the file: a log rotates at 20 MB, and a tail is what is asked for."""


def tail(folder: Path, stream: str, limit: int) -> tuple[Path | None, list[dict[str, Any]]]:
    """The newest lines that name the stream, or no stream at all, oldest first.

    Args:
        folder: the launch's folder, with `driver.log` (JSON lines) and `stdout.log` (what Spark and Python print).

    Returns:
        the file, None when there is none, and its lines. A line that is not JSON is `{"raw": text}`.
    """
    for name in ("driver.log", "stdout.log"):
        file = folder / name
        if file.is_file() and file.stat().st_size:
            return file, _lines(file, stream, limit)
    return None, []


def _lines(file: Path, stream: str, limit: int) -> list[dict[str, Any]]:
    found: deque[dict[str, Any]] = deque(maxlen=limit)
    with file.open("rb") as source:
        source.seek(0, 2)
        size = source.tell()
        source.seek(max(0, size - READ_BYTES))
        text = source.read().decode(errors="replace").splitlines()
    for line in text[1:] if size > READ_BYTES else text:  # the first line may be half of one
        try:
            parsed = json.loads(line)
        except ValueError:
            parsed = {"raw": line}
        if not isinstance(parsed, dict):
            parsed = {"raw": line}
        if parsed.get("stream", stream) == stream:
            found.append(parsed)
    return list(found)
