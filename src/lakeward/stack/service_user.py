"""Service user of PostgreSQL, which refuses to run as root: for root, it runs as a separate user.

This user must reach the binaries and the data, which may be below folders that only root can enter (a clone in /root,
a `mktemp -d`). These folders are not opened to everyone. Instead `launch` keeps one capability, the right to bypass
folder permissions, and drops all others.
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

from lakeward.platform.errors import expect

NAME = "lakeward-pg"


@dataclass(frozen=True)
class ServiceUser:
    """The user that PostgreSQL runs as."""

    name: str
    uid: int
    gid: int

    def may_reach(self, path: Path) -> bool:
        """Whether this user can enter every existing folder above `path`; missing ones are created for it."""
        return all(self._may_enter(parent) for parent in path.resolve().parents if parent.exists())

    def _may_enter(self, folder: Path) -> bool:
        facts = folder.stat()
        if facts.st_uid == self.uid:
            return bool(facts.st_mode & stat.S_IXUSR)
        if facts.st_gid == self.gid:
            return bool(facts.st_mode & stat.S_IXGRP)
        return bool(facts.st_mode & stat.S_IXOTH)


def service_user() -> ServiceUser | None:
    """The user that PostgreSQL must run as; None if this process is not root: then it is the present user."""
    if os.geteuid() != 0:
        return None
    entry = expect(_entry(NAME) or _make() or _entry("nobody"), "the system user `nobody`")
    return ServiceUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def wrap(command: list[str], *, touching: list[Path], bound: bool = False) -> list[str]:
    """`command`, run as the service user if this process is root.

    Args:
        command: a program in the foreground.
        touching: paths that it must reach.
        bound: end it when its parent process ends (Linux), for short-lived servers.
    """
    options = ["--bound", "QUIT"] if bound else []  # PostgreSQL's immediate shutdown
    user = service_user()
    if user is not None:
        options += ["--user", user.name]
        if not all(user.may_reach(path) for path in touching):
            options += ["--reach"]
    return _launched(command, options)


def bound(command: list[str]) -> list[str]:
    """`command` as the same user, killed when its parent process ends (Linux)."""
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
