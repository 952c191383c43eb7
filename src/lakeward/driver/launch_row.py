"""Reporter of a launch on a cluster: carries what the outside asks and what it must see, through the launch's row.

A thread of its own, so that a driver whose control loop hangs still answers. It also watches the JVM that started this
process: without it nothing can be written, and the process must end.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from lakeward.driver import thread_dumps
from lakeward.driver.jvm import without_command
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Launch
from lakeward.registry import drivers, engine, launches
from lakeward.registry.drivers import Handle
from lakeward.supervision.backends.base import ExitRecord

_log = structlog.get_logger(__name__)

EVERY_S = 1.0
LOGS_S = 5.0
"""The interval in which the end of the logs is written, if they changed."""
ORPHAN_S = 30.0
"""How long this process may live without its JVM: enough to record why it ends."""
LOG, PRINTED = "driver.log", ("stdout", "stderr")
"""The driver's own log, and where a worker of a standalone cluster puts what Python and the JVM print."""
_LOG_BYTES, _PRINTED_BYTES = 64_000, 4_000


class LaunchReporter:
    """Reports one launch.

    Args:
        handle: the driver's identity; None: the submission, whose name is that of the folder.
        printed: files of the folder with what Python and the JVM print.
        jvm_given: whether a JVM started this process, so that it ends with the JVM.

    Attributes:
        end: called when the driver is asked to end.
        threads: returns a thread dump.
    """

    def __init__(
        self,
        launch: Launch,
        url: str,
        pgpass: Path | None,
        *,
        handle: Handle | None = None,
        printed: Sequence[str] = PRINTED,
        jvm_given: bool = True,
    ) -> None:
        self._launch, self._url, self._pgpass = launch, url, pgpass
        self._handle, self._printed, self.jvm_given = handle, printed, jvm_given
        self._parent = os.getppid()
        self._orphan_since: float | None = None
        self._stop = threading.Event()
        self._written: tuple[float, ...] = ()
        self._written_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="launch row", daemon=True)
        self.end: Callable[[], None] = lambda: None
        self.threads: Callable[[], str] = thread_dumps.text

    def is_orphan(self) -> bool:
        """Whether the JVM that started this process has ended."""
        return self.jvm_given and os.getppid() != self._parent

    def claimed(self) -> None:
        """Record where this driver runs. Its starter may have died before it recorded the submission."""
        launch = self._launch
        submission: Handle = {"submission": launch.folder.name, "master": launch.conf.get("spark.master", "")}
        handle = self._handle or submission
        host, folder = socket.gethostname(), str(launch.folder)
        with engine.connect(self._url, self._pgpass) as connection:
            launches.arrived(connection, launch.id, handle, host=host, log=folder)
            drivers.started(connection, launch.driver, launch.token, handle=handle, host=host, log=folder)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, record: ExitRecord) -> None:
        """Write the exit record and the end of the logs. While the registry is down, both are lost."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        with suppress(DependencyDown), engine.connect(self._url, self._pgpass) as connection:
            launches.write_exit(connection, self._launch.id, dict(record))
            self._write_logs(connection)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._watch_parent()
            try:
                self._turn()
            except DependencyDown:
                pass  # the registry link logs it
            except Exception:  # noqa: BLE001  # named boundary: without this thread the driver cannot be stopped
                _log.exception("launch row not written")

    def _turn(self) -> None:
        with engine.connect(self._url, self._pgpass) as connection:
            requests = launches.requests(connection, self._launch.id)
        if requests.end:
            self.end()
        if requests.dump is not None:
            text = self.threads()
            with engine.connect(self._url, self._pgpass) as connection:
                launches.write_dump(connection, self._launch.id, text)
        if time.monotonic() - self._written_at >= LOGS_S and self._changed():
            with engine.connect(self._url, self._pgpass) as connection:
                self._write_logs(connection)

    def _changed(self) -> bool:
        now = tuple(_modified(self._launch.folder / name) for name in (LOG, *self._printed))
        changed, self._written = now != self._written, now
        return changed

    def _write_logs(self, connection: Any) -> None:
        folder = self._launch.folder
        printed = "\n".join(without_command(_end(folder / name, _PRINTED_BYTES // 2)) for name in self._printed)
        launches.write_logs(connection, self._launch.id, log=_end(folder / LOG, _LOG_BYTES), printed=printed)
        self._written_at = time.monotonic()

    def _watch_parent(self) -> None:
        """End this process if its JVM has ended and the control loop, which sees it too, does not come to its end."""
        if not self.is_orphan():
            return
        self._orphan_since = self._orphan_since or time.monotonic()
        if time.monotonic() - self._orphan_since > ORPHAN_S:
            _log.error("process ended: its JVM is gone and the control loop hangs")
            os._exit(1)


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _end(file: Path, size: int) -> str:
    """The last lines of a file; a first line that is cut is left out."""
    try:
        with file.open("rb") as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - size))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return text.partition("\n")[2] if length > size else text
