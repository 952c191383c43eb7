"""`lakeward tables maintain` as a process of its own, to be killed; a fault of PLANTED may be planted in it first.

python maintainer.py FAULT|- ARGUMENT...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from lakeward.cli.app import main
from lakeward.tables import maintain
from lakeward.tables.guard import clamps


def _nobody_takes_over(*_: Any) -> list[int]:
    return []


def _forget_the_dead() -> None:
    maintain.take_over = _nobody_takes_over  # type: ignore[assignment]  # the fault


PLANTED: dict[str, Callable[[], None]] = {"nobody takes over": _forget_the_dead}
"""Name of a fault -> plants it."""

if __name__ == "__main__":
    clamps.STAGED_FLOOR = timedelta(0)  # no stream stages here, and nobody waits a minute for one
    if sys.argv[1] != "-":
        PLANTED[sys.argv[1]]()
    main(sys.argv[2:])
