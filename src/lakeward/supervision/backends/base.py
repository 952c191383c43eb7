"""The backend protocol: start a detached driver, find started drivers, and end them by identity."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypedDict

from lakeward.platform.runtime import Launch
from lakeward.registry.drivers import Handle


class Life(StrEnum):
    """What is left of a launch."""

    ALIVE = "alive"
    REMNANT = "remnant"  # the driver itself has ended, processes it started still run
    GONE = "gone"
    UNKNOWN = "unknown"  # it cannot be asked from here


class ExitRecord(TypedDict, total=False):
    """A driver's `exit.json`: its end, and the batch that failed."""

    exit_code: int
    failure_class: str | None
    cause: str | None
    error: str | None
    stream: str | None
    batch_id: int | None
    offsets: Mapping[str, object] | None


@dataclass(frozen=True)
class Job:
    """One launch as the backend knows it.

    Attributes:
        driver, token: the launch.
        life: what is left of it.
        handle: the backend's identity; None if the process was never recorded and is not found.
        host: where it runs.
        log: where it logs.
        exit: the driver's `exit.json`, None without one.
        stopped: its process exists and is stopped (SIGSTOP), so that it does nothing until it is continued.
        printed: the end of what it printed, for a job whose files cannot be read from here.
        waits: why a cluster has not started it yet; empty if it has.
        lost: why the backend, which can be asked, does not know what became of it; empty if it knows.
    """

    driver: str
    token: str
    life: Life
    handle: Handle | None
    host: str
    log: str
    exit: ExitRecord | None = None
    stopped: bool = False
    printed: str | None = None
    waits: str = ""
    lost: str = ""


@dataclass(frozen=True)
class Known:
    """A launch as the registry knows it, for a backend that cannot find it by itself (another host, a lost folder)."""

    driver: str
    token: str
    handle: Handle
    log: str


def launch_folder(drivers: Path, driver: str) -> Path:
    """A new folder for one launch of a driver; names sort by time."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return drivers / driver / f"{stamp}-{secrets.token_hex(3)}"


class Backend(Protocol):
    """Starts, finds and ends drivers. Every call is short and safe to repeat.

    Raises (all methods):
        DependencyDown: the backend cannot be asked. The state of its drivers is then unknown.
    """

    name: str

    def start(self, launch: Launch) -> Job:
        """Start a driver that outlives its starter, and return its identity.

        Raises:
            LakewardError: it could not be started; no process remains.
        """

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The newest launches of every driver it knows, dead or alive, and the state of `known`."""

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """End a job: SIGTERM, and SIGKILL to what remains after `grace_s` seconds. True if nothing remains."""

    def kill(self, job: Job) -> bool:
        """SIGKILL to everything that remains of a job. True if nothing remains."""

    def dump(self, job: Job) -> str | None:
        """Write a thread dump of a job beside its log; returns the file, None if none could be taken. Never raises."""
