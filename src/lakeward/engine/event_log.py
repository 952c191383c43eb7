"""Rotation of Spark's event log of a launch: bounded, and complete enough to open the UI of a dead driver.

Spark rolls the log into files of 50 MB (about 11 MB on the disk, compressed) and never removes one while the
application runs. The rotation keeps the newest files. Of the older ones it keeps the events without which Spark's
history server cannot show the application, in one file of the form that Spark's own compaction writes
(`events_<n>_<app>.zstd.compact`: read instead of every file up to n).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

FOLDER = "events"
RETAINED = 4
"""Rolled files that are kept, including the one that is being written: about 45 MB a launch."""
EVERY_S = 300.0
COMPACT = ".compact"
_RETAINED_EVENTS = {
    f"SparkListener{name}"
    for name in (
        "LogStart", "ApplicationStart", "EnvironmentUpdate", "ResourceProfileAdded",
        "BlockManagerAdded", "BlockManagerRemoved", "ExecutorAdded", "ExecutorRemoved",
    )
}  # fmt: skip
_HEAD = 120
"""The bytes of a line that are searched for the event's name. Lines can be megabytes long."""


def conf(folder: Path) -> dict[str, str]:
    """Spark conf that writes the event log below a launch's folder."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / FOLDER).as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "50m",
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        # The task's own metrics have them already; they would be a third of the log.
        "spark.eventLog.includeTaskMetricsAccumulators": "false",
    }


def trim(folder: Path) -> int:
    """Remove the oldest rolled files of every application below `folder`; returns how many."""
    removed = 0
    for application in (folder / FOLDER).glob("eventlog_v2_*"):
        files = sorted((file for file in application.iterdir() if file.name.startswith("events_")), key=_number)
        old = files[:-RETAINED] if len(files) > RETAINED else []
        if not old or old[-1].name.endswith(COMPACT):
            continue
        _keep_head(old, old[-1].with_name(old[-1].name + COMPACT))
        for file in old:
            file.unlink()
        removed += len(old)
    return removed


def _number(file: Path) -> tuple[int, bool]:
    return int(file.name.split("_")[1]), file.name.endswith(COMPACT)


def _keep_head(old: list[Path], into: Path) -> None:
    """Write the kept events of old files. The file gets its name when it is complete, so no reader sees half of it."""
    import pyarrow

    fresh = into.with_name(f".{into.name}")
    with pyarrow.output_stream(str(fresh), compression="zstd") as sink:
        for file in old:
            for line in _lines(file):
                if _event(line) in _RETAINED_EVENTS:
                    sink.write(line + b"\n")
    fresh.replace(into)


def _lines(file: Path) -> Iterator[bytes]:
    import pyarrow

    rest = b""
    with pyarrow.input_stream(str(file), compression="zstd") as source:
        while chunk := source.read(1 << 20):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
    if rest:
        yield rest


def _event(line: bytes) -> str:
    head = line[:_HEAD]
    if not head.startswith(b'{"Event":"'):
        return ""
    return head[10:].split(b'"', 1)[0].decode()


class EventLogRotator:
    """Rotates the event log of one launch every `EVERY_S`, in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                trim(self._folder)
            except Exception:  # noqa: BLE001  # named boundary: one unreadable file must not end the rotation
                _log.exception("event log rotation failed")
