"""Spark's event log of a launch, kept bounded, so that the UI of a dead driver can be opened.

Spark rolls it into files of 50 MB (before compression: about 11 on the disk) and never removes one while the
application runs. Of a stream that runs for months
the newest files are worth keeping; of the older ones only what Spark's history server needs to show the application at
all. That goes into one file of the form its own compaction writes (`events_<n>_<app>.zstd.compact`: read instead of
every file up to n).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

FOLDER = "events"
KEPT = 4
"""Rolled files that stay, the one being written included: about 45 MB a launch."""
EVERY_S = 300.0
COMPACT = ".compact"
_KEPT_EVENTS = {
    f"SparkListener{name}"
    for name in (
        "LogStart", "ApplicationStart", "EnvironmentUpdate", "ResourceProfileAdded",
        "BlockManagerAdded", "BlockManagerRemoved", "ExecutorAdded", "ExecutorRemoved",
    )
}  # fmt: skip
_HEAD = 120
"""The event's name stands at the beginning of its line; lines are megabytes long at times."""


def conf(folder: Path) -> dict[str, str]:
    """Spark conf that keeps the event log below a launch's folder."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / FOLDER).as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "50m",
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        # Each is in the task's own metrics already; a third of the log otherwise.
        "spark.eventLog.includeTaskMetricsAccumulators": "false",
    }


def trim(folder: Path) -> int:
    """Remove the oldest rolled files of every application below `folder`; returns how many."""
    removed = 0
    for place in (folder / FOLDER).glob("eventlog_v2_*"):
        files = sorted((each for each in place.iterdir() if each.name.startswith("events_")), key=_number)
        old = files[:-KEPT] if len(files) > KEPT else []
        if not old or old[-1].name.endswith(COMPACT):
            continue
        _keep_head(old, old[-1].with_name(old[-1].name + COMPACT))
        for each in old:
            each.unlink()
        removed += len(old)
    return removed


def _number(file: Path) -> tuple[int, bool]:
    return int(file.name.split("_")[1]), file.name.endswith(COMPACT)


def _keep_head(old: list[Path], into: Path) -> None:
    """Write what must stay of the files that go. Under another name first: a reader never sees half of it."""
    import pyarrow

    fresh = into.with_name(f".{into.name}")
    with pyarrow.output_stream(str(fresh), compression="zstd") as sink:
        for file in old:
            for line in _lines(file):
                if _event(line) in _KEPT_EVENTS:
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
    """Looks after the event log of one launch, every few minutes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event log", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                trim(self._folder)
            except Exception:  # noqa: BLE001  # named boundary: an odd file must not end the looking after
                _log.exception("the event log could not be tended")
