"""Home of `demo --check`: marked when it is created, and removed only if it has no other files."""

from __future__ import annotations

import shlex
import shutil

from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Home, absent
from lakeward.stack.state import LOCK, StackState, exclusive
from lakeward.stack.supervisor import Supervisor

MARK = "made-by-demo-check"
_WRITTEN = frozenset(
    (
        MARK, "airflow", "cache", "checkpoints", "connect", "drivers", "kafka", "logs", "postgres", "runtime.json",
        "secrets", "stack.json", "stack.lock", "supervisor", "warehouse",
    )
)  # fmt: skip
"""What a checked demo writes into its home."""


def begin(home: Home) -> None:
    """Make the home empty: what an earlier checked demo left there is removed.

    Raises:
        Refused: a stack runs there, or what stands there is not a checked demo's; nothing was touched.
    """
    if StackState.load(home).running or Supervisor(home).find() is not None:
        raise Refused(
            "A checked demo still runs here",
            why=f"its stack stands in {home.root}",
            next=f"lakeward stack down --home {shlex.quote(str(home.root))}",
            code="LW-7410",
        )
    if stranger := strange(home):
        raise Refused(
            "A checked demo would wipe this folder, and not all of it is a checked demo's; nothing was touched",
            why=f"{home.root} {stranger}",
            next=f"name another home: lakeward demo --check --home DIR   (or, if nobody needs it: "
            f"rm -r {shlex.quote(str(home.root))})",
            code="LW-7411",
        )
    if not absent(home.root / LOCK):
        with exclusive(home):  # not while another one starts
            shutil.rmtree(home.root)
    elif home.root.exists():
        shutil.rmtree(home.root)
    home.root.mkdir(parents=True)
    (home.root / MARK).touch()


def remove(home: Home) -> str | None:
    """Remove the home; None, or the reason why it is left as it is."""
    if stranger := strange(home):
        return stranger
    shutil.rmtree(home.root)
    return None


def strange(home: Home) -> str | None:
    """What says that the folder is not a checked demo's alone; None where it is, is empty, or is not there.

    Raises:
        Refused: nobody may look.
    """
    root = home.root
    if absent(root):
        return None
    if root.is_symlink() or not root.is_dir():
        return "is a link" if root.is_symlink() else "is no folder"
    try:
        names = {item.name for item in root.iterdir()}
    except OSError as error:
        raise Refused(
            f"{root} cannot be looked into",
            why=error.strerror or "",
            next="name another home: --home DIR",
            code="LW-7412",
        ) from None
    if names and MARK not in names:
        return f"holds {min(names)} and no file {MARK}, which a checked demo writes first"
    others = sorted(names - _WRITTEN)
    return f"holds {others[0]}, which no checked demo writes" if others else None
