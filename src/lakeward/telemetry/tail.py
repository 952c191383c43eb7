"""Log tail: the last lines of a driver's log that concern one stream, masked."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from lakeward.telemetry.mask import mask

READ_BYTES = 4 * 1024 * 1024
"""How many bytes of the end of each file are read; a log rotates at 20 MB."""
LogLine = dict[str, object]
"""One line of a log by its fields. The caller that logs chooses the names."""

FILES = ("driver.log", "stdout.log")
ROTATED = 5
LINES, WIDTH = 20, 300
"""Number of lines in a failure report, and the characters of each."""


def tail(
    folder: Path, stream: str, limit: int, *, since: datetime | None = None, grep: str | None = None
) -> tuple[Path | None, list[LogLine]]:
    """The newest lines that name the stream, or no stream at all, oldest first.

    Args:
        folder: the launch's folder, with `driver.log` (JSON lines) and `stdout.log` (what Spark and Python print).
        since: no line older than this; a line without a time belongs to the line before it.
        grep: only lines that contain this text, ignoring case.

    Returns:
        the file (None if there is none) and its lines. A line that is not JSON is `{"raw": text}`.
    """
    for name in FILES:
        file = folder / name
        if file.is_file() and file.stat().st_size:
            return file, _lines(file, stream, limit, since, grep)
    return None, []


def text(line: LogLine) -> str:
    """One line of a driver's log for people: time, level, sentence, fields."""
    if "raw" in line:
        return str(line["raw"])
    header = ("timestamp", "level", "event", "logger", "exception")
    rest = {key: value for key, value in line.items() if key not in header and value is not None}
    fields = " ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in rest.items())
    head = f"{str(line.get('timestamp', ''))[:23]} {line.get('level', ''):<7} {line.get('event', '')}"
    return f"{head}  {fields}".rstrip()


def newest(folder: Path, stream: str) -> list[str]:
    """The newest lines about a stream for a failure report, each cut to a width."""
    return short(tail(folder, stream, LINES)[1])


def of_text(
    log: str, stream: str, limit: int, *, since: datetime | None = None, grep: str | None = None
) -> list[LogLine]:
    """The same of a log that is no file here, e.g. the end of one that the registry keeps."""
    return _chosen([log.splitlines()], stream, limit, since, grep)


def short(lines: list[LogLine]) -> list[str]:
    """Lines for a failure report, each cut to a width."""
    return [text(line).replace("\n", " ")[:WIDTH].rstrip() for line in lines]


def before(folder: Path) -> Path | None:
    """The folder of the previous launch, if it still exists."""
    if not folder.parent.is_dir():
        return None
    older = sorted(item for item in folder.parent.iterdir() if item.is_dir() and item.name < folder.name)
    return older[-1] if older else None


def _lines(file: Path, stream: str, limit: int, since: datetime | None, grep: str | None) -> list[LogLine]:
    # The older, rotated files are read only for a time or a text.
    files = [file] if since is None and grep is None else [*_rotated(file), file]
    return _chosen(map(_read, files), stream, limit, since, grep)


def _chosen(
    sources: Iterable[list[str]], stream: str, limit: int, since: datetime | None, grep: str | None
) -> list[LogLine]:
    newest_lines: deque[LogLine] = deque(maxlen=limit)
    pattern = None if grep is None else grep.casefold()
    young = since is None
    for source in sources:
        for line in source:
            shown = mask(line)
            parsed = _parse(shown)
            at = _moment(parsed)
            if since is not None and at is not None:
                young = at >= since
            if young and parsed.get("stream", stream) == stream and (pattern is None or pattern in shown.casefold()):
                newest_lines.append(parsed)
    return list(newest_lines)


def _rotated(file: Path) -> list[Path]:
    """The older files of a rotated log, oldest first."""
    older = (file.with_name(f"{file.name}.{number}") for number in range(ROTATED, 0, -1))
    return [rotated for rotated in older if rotated.is_file()]


def _read(file: Path) -> list[str]:
    with file.open("rb") as source:
        source.seek(0, 2)
        size = source.tell()
        source.seek(max(0, size - READ_BYTES))
        lines = source.read().decode(errors="replace").splitlines()
    return lines[1:] if size > READ_BYTES else lines  # the first line may be incomplete


def _parse(line: str) -> LogLine:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"raw": line}
    return parsed if isinstance(parsed, dict) else {"raw": line}


def _moment(line: LogLine) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(line.get("timestamp", "")).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
