"""Requirements of this machine, checked before a start. Java and the jars are checked by their own modules."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Home
from lakeward.platform.text import size

DISK_BYTES = 2 * 1024**3
MEMORY_BYTES = 3 * 1024**3


def check(home: Home, *, disk_bytes: int = DISK_BYTES) -> None:
    """Check the requirements before a start, so that it does not fail later with an unclear error.

    Raises:
        Unhealthy: the disk of the home has too little free space, or the home cannot be written.
    """
    free = free_disk_bytes(home.root)
    if free < disk_bytes:
        raise Unhealthy(
            "The disk is full",
            why=f"{home.root}: {size(free)} free, {size(disk_bytes)} required",
            next="make room, or use another disk: lakeward --home DIR stack up",
            code="LW-7014",
        )
    try:
        home.root.mkdir(parents=True, exist_ok=True)
        probe = home.root / ".writable"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise Unhealthy(
            "The home cannot be written",
            why=f"{error.filename}: {error.strerror}",
            next="lakeward --home DIR stack up",
            code="LW-7015",
        ) from None


def free_disk_bytes(path: Path) -> int:
    """Free disk space for a normal user at `path`, which need not exist yet."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def available_memory_bytes() -> int:
    """Memory available to programs."""
    return int(psutil.virtual_memory().available)
