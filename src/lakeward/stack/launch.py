"""Launcher: changes the user and replaces this process by a program (`exec`, same pid).

`python -m lakeward.stack.launch [--user NAME [--reach]] [--bound SIGNAL] -- PROGRAM ARGUMENT...`

--reach: keep the capability to bypass folder permissions, and no other right of root (Linux).
--bound: receive this signal (KILL, QUIT) when the parent process ends (Linux). QUIT does not end a JVM.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import signal
import struct
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1  # 2 (read and search only) would be enough, but containers rarely have it
CAPABILITY_VERSION_3 = 0x20080522


def main(arguments: list[str]) -> None:
    """Entry point; does not return."""
    parser = argparse.ArgumentParser(prog="launch")
    parser.add_argument("--user")
    parser.add_argument("--reach", action="store_true")
    parser.add_argument("--bound", choices=["KILL", "QUIT"])
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    parent = os.getppid()
    if given.user:
        become(given.user, reach=given.reach)
    if given.bound and sys.platform == "linux":
        number = signal.Signals[f"SIG{given.bound}"]
        if number is signal.SIGQUIT:  # ignored by all that a script's shell starts with `&`
            signal.signal(number, signal.SIG_DFL)
        # After the change of user, which clears this setting.
        _prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            raise SystemExit(1)
    os.execv(given.command[0], given.command)  # noqa: S606 - a list, no shell, and it must be this process


def become(name: str, *, reach: bool) -> None:
    """Drop root for `name`.

    Raises:
        OSError: the system refuses; `reach` is supported on Linux only.
    """
    entry = pwd.getpwnam(name)
    if reach:
        _prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    if reach:
        mask = 1 << CAP_DAC_OVERRIDE
        header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
        # effective, permitted, inheritable for capabilities 0-31, then the same for 32-63
        data = struct.pack("=6I", mask, mask, mask, 0, 0, 0)
        _check(_libc().capset(header, data))
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE)
    os.environ["HOME"] = entry.pw_dir


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, *values: int) -> None:
    numbers = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check(_libc().prctl(option, *numbers))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(sys.argv[1:])
