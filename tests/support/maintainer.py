"""`lakeward tables ..` as a process of its own, to be killed; a fault may be planted in it first.

python maintainer.py FAULT|- ARGUMENT...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from lakeward.cli.app import main
from lakeward.tables import maintain
from lakeward.tables.erase import files
from lakeward.tables.guard import pins


def _no_takeover(*_: Any) -> list[int]:
    return []


def _forget_the_dead() -> None:
    maintain.take_over = _no_takeover  # type: ignore[assignment]  # the fault


def _deletes_nothing(*_: Any) -> int:
    return 0


def _leave_old_files() -> None:
    files.delete = _deletes_nothing  # type: ignore[assignment]  # the fault


PLANTED: dict[str, Callable[[], None]] = {"nobody takes over": _forget_the_dead}
"""Name of a fault of the maintenance -> plants it."""
OF_ERASE: dict[str, Callable[[], None]] = {"old files stay": _leave_old_files}
"""The same of an erase."""

if __name__ == "__main__":
    pins.STAGED_FLOOR = timedelta(0)  # no stream stages here, and nobody waits a minute for one
    if sys.argv[1] != "-":
        (PLANTED | OF_ERASE)[sys.argv[1]]()
    main(sys.argv[2:])
