"""Home of `demo --check`: marked when it is created, and removed only if it has no other files."""

from __future__ import annotations

import shlex
import shutil

from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Home, absent
from lakeward.stack.state import LOCK, StackState, exclusive
from lakeward.stack.supervisor import Supervisor
from lakeward.tables.guard import owners

MARK = "made-by-demo-check"
_WRITTEN = frozenset(
    (
        MARK, "airflow", "cache", "checkpoints", "connect", "drivers", "kafka", "logs", "postgres", "runtime.json",
        "secrets", "stack.json", "stack.lock", "supervisor", "warehouse", owners.FILE, f"{owners.FILE}-journal",
    )
)  # fmt: skip
"""The files and folders that `demo --check` writes into its home."""


def begin(home: Home) -> None:
    """Create an empty home: files of an earlier `demo --check` are removed.

    Raises:
        Refused: a stack runs there, or the folder has other files; nothing was changed.
    """
    if StackState.load(home).running or Supervisor(home).find() is not None:
        raise Refused(
            "Another `demo --check` is running in this home",
            why=f"its stack is in {home.root}",
            next=f"lakeward stack down --home {shlex.quote(str(home.root))}",
            code="LW-7410",
        )
    if reason := foreign(home):
        raise Refused(
            "Cannot use this folder for `demo --check`: it has other files; nothing was changed",
            why=f"{home.root} {reason}",
            next=f"name another home: lakeward demo --check --home DIR   (or, if it is not needed: "
            f"rm -r {shlex.quote(str(home.root))})",
            code="LW-7411",
        )
    if not absent(home.root / LOCK):
        with exclusive(home):  # not while another stack starts
            shutil.rmtree(home.root)
    elif home.root.exists():
        shutil.rmtree(home.root)
    home.root.mkdir(parents=True)
    (home.root / MARK).touch()


def remove(home: Home) -> str | None:
    """Remove the home; returns None, or the reason why it was not removed."""
    if reason := foreign(home):
        return reason
    shutil.rmtree(home.root)
    return None


def foreign(home: Home) -> str | None:
    """The reason why the folder may not be removed; None if it has files of `demo --check` only, or none.

    Raises:
        Refused: the folder cannot be read.
    """
    root = home.root
    if absent(root):
        return None
    if root.is_symlink() or not root.is_dir():
        return "is a link" if root.is_symlink() else "is not a folder"
    try:
        names = {item.name for item in root.iterdir()}
    except OSError as error:
        raise Refused(
            f"Cannot read folder {root}",
            why=error.strerror or "",
            next="name another home: --home DIR",
            code="LW-7412",
        ) from None
    if names and MARK not in names:
        return f"contains {min(names)} and no file {MARK}, which `demo --check` writes first"
    others = sorted(names - _WRITTEN)
    return f"contains {others[0]}, which `demo --check` does not write" if others else None
