"""PostgreSQL refuses to run as root. When we are root it runs as a user of its own.

The user must reach the binaries and the data, which may stand below folders only root may enter (a clone in /root, a
`mktemp -d`). Opening those folders to everyone would be rude, so `launch` then keeps one capability, the right to pass
folder permissions, and drops everything else.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAME = "lakeward-pg"


@dataclass(frozen=True)
class ServiceUser:
    """The user PostgreSQL runs as: ids of the system's user database."""

    name: str
    uid: int
    gid: int

    def may_reach(self, path: Path) -> bool:
        """Whether this user may enter every folder above `path`; those not there yet will be made for it."""
        return all(self._may_enter(parent) for parent in path.resolve().parents if parent.exists())

    def _may_enter(self, folder: Path) -> bool:
        facts = folder.stat()
        if facts.st_uid == self.uid:
            return bool(facts.st_mode & stat.S_IXUSR)
        if facts.st_gid == self.gid:
            return bool(facts.st_mode & stat.S_IXGRP)
        return bool(facts.st_mode & stat.S_IXOTH)


def service_user() -> ServiceUser | None:
    """The user PostgreSQL must run as; None when we are a normal user and it runs as us."""
    if os.geteuid() != 0:
        return None
    entry = _entry(NAME) or _make() or _entry("nobody")
    if entry is None:
        raise AssertionError("a system without the user nobody")
    return ServiceUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def wrap(command: list[str], *, touching: list[Path], bound: bool = False) -> list[str]:
    """`command`, run as the service user when we are root.

    Args:
        command: what to run, in the foreground.
        touching: paths it must reach.
        bound: end it when the process that starts it ends (Linux), for short-lived servers.
    """
    options = ["--bound", "QUIT"] if bound else []  # its immediate shutdown
    user = service_user()
    if user is not None:
        options += ["--user", user.name]
        if not all(user.may_reach(path) for path in touching):
            options += ["--reach"]
    return _launched(command, options)


def bound(command: list[str]) -> list[str]:
    """`command`, killed when the process that starts it ends (Linux), as the same user."""
    return _launched(command, ["--bound", "KILL"])


def _launched(command: list[str], options: list[str]) -> list[str]:
    return [sys.executable, "-m", "lakeward.stack.launch", *options, "--", *command] if options else command


def own(path: Path) -> None:
    """Give `path` (one file or folder) to the service user, if there is one."""
    user = service_user()
    if user is not None:
        os.chown(path, user.uid, user.gid)


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make() -> pwd.struct_passwd | None:
    tool = shutil.which("useradd")
    if tool is None:
        return None
    subprocess.run(
        [tool, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME], check=False, capture_output=True
    )
    return _entry(NAME)
