"""What a backend is: it starts a detached driver, finds the ones it started, and ends them by identity."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from lakeward.platform.runtime import Launch


class Life(StrEnum):
    """What is left of a launch."""

    ALIVE = "alive"
    REMNANT = "remnant"  # the driver itself is gone, processes it started are left
    GONE = "gone"
    UNKNOWN = "unknown"  # it cannot be asked from here


@dataclass(frozen=True)
class Job:
    """One launch as the backend knows it.

    Attributes:
        driver, token: whose launch it is.
        life: what is left of it.
        handle: the backend's identity; None when the process never was recorded and is not found.
        host: where it runs.
        log: where it logs.
        exit: the driver's last words (`exit.json`), None if it left none.
    """

    driver: str
    token: str
    life: Life
    handle: Mapping[str, Any] | None
    host: str
    log: str
    exit: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Known:
    """A launch as the registry knows it, for a backend that cannot find it by itself (another host, a lost folder)."""

    driver: str
    token: str
    handle: Mapping[str, Any]
    log: str


def launch_folder(drivers: Path, driver: str) -> Path:
    """A fresh folder for one launch of a driver; names sort by time."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return drivers / driver / f"{stamp}-{secrets.token_hex(3)}"


class Backend(Protocol):
    """Starts, finds and ends drivers. Every call is short and safe to repeat.

    Raises (all methods):
        DependencyDown: the backend cannot be asked. Nothing may be concluded from that.
    """

    name: str

    def start(self, launch: Launch) -> Job:
        """Start a driver that outlives its starter, and return its identity.

        Raises:
            LakewardError: it could not be started; no process is left.
        """

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """The newest launches of every driver it knows of, dead or alive, and what became of `known`."""

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """End a job: ask it (SIGTERM), and after `grace_s` seconds kill all that is left. True if nothing is left."""

    def kill(self, job: Job) -> bool:
        """End at once whatever is left of a job. True if nothing is left."""

    def dump(self, job: Job) -> str | None:
        """Write down what the threads of a job do, beside its log; where, None if it could not be had. Never raises."""
