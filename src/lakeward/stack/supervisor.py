"""supervisord: starts the parts, restarts them when they die, and rotates their logs.

It runs in its own session, detached from the terminal. Every part is in this session, by which `stack down` verifies
that no process remains. It is controlled over a Unix socket that only its user can open.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psutil

from lakeward.platform import machine
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, absent
from lakeward.stack import private, run, service_user
from lakeward.stack.part import Part
from lakeward.stack.program import Program
from lakeward.stack.state import Process

LONGEST_SOCKET_PATH = 100  # 108 on Linux, 104 on macOS, with supervisord's own suffix
LOG_BYTES = 10 * 1024 * 1024
LOGS_RETAINED = 3
STARTS_WITHIN_S = 60
_PID = "supervisord.pid"
_SHUTDOWN_STATE = 6
"""supervisord's fault code of every call while it ends."""


@dataclass(frozen=True)
class Observed:
    """The state of one part, as supervisord reports it.

    Attributes:
        state: STOPPED STARTING RUNNING BACKOFF STOPPING EXITED FATAL.
        pid: 0 if it does not run.
        started: time of the newest start.
    """

    name: str
    state: str
    pid: int
    started: datetime


class Supervisor:
    """The supervisor of one home."""

    def __init__(self, home: Home) -> None:
        self.folder = home.root / "supervisor"
        self.config = self.folder / "supervisord.conf"
        self.log = home.logs / "supervisord.log"
        self.logs = home.logs

    @property
    def socket(self) -> Path:
        """The control socket; it is in the temporary folder if the path of the home is too long for a socket."""
        near = self.folder / "control"
        if len(str(near)) <= LONGEST_SOCKET_PATH:
            return near
        short = hashlib.sha256(str(near).encode()).hexdigest()[:12]
        return private.folder(Path(tempfile.gettempdir()) / f"lakeward-{os.geteuid()}-{short}") / "control"

    def find(self) -> Process | None:
        """The live supervisor of this home, independent of `stack.json`; None without one."""
        if absent(self.folder):
            return None
        with suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int((self.folder / _PID).read_text()))
            if str(self.config) in process.cmdline():
                return Process.of(process.pid)
        with suppress(OSError, xmlrpc.client.Error, psutil.Error):
            return Process.of(cast(int, self._call("getPID")))
        return None

    def write(self, parts: Sequence[Part]) -> None:
        """Write the configuration of exactly these parts, and the program of each part for its next start."""
        private.folder(self.folder)
        for part in parts:
            run.save(self.folder, part.name, part.program())
        private.write(self.config, self._text(parts))

    def start(self) -> Process:
        """Start supervisord as a daemon in its own session, without the environment of this process.

        Raises:
            LakewardError: it did not start.
        """
        # Bound until it is a daemon: it opens its socket before, by which `find` knows it.
        command = service_user.bound([sys.executable, "-m", "supervisor.supervisord", "-c", str(self.config)])
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)
        end = time.monotonic() + machine.patience(STARTS_WITHIN_S)
        while done.returncode == 0 and time.monotonic() < end:
            with suppress(OSError, xmlrpc.client.Error):
                return Process.of(cast(int, self._call("getPID")))
            time.sleep(0.05)
        why = done.stderr.strip() or tail(self.log, 3)
        raise LakewardError("supervisord did not start", why=why, next=f"less {self.log}", code="LW-7021")

    def reload(self) -> None:
        """Apply the written configuration: add new parts; removed and changed parts are stopped first."""
        [[added, changed, removed]] = cast(list[list[list[str]]], self._call("reloadConfig"))
        for group in [*changed, *removed]:
            self._call("stopProcessGroup", group, True)
            self._call("removeProcessGroup", group)
        for group in [*added, *changed]:
            self._call("addProcessGroup", group)

    def launch(self, name: str) -> None:
        """Start a part if it does not run; does not wait."""
        try:
            self._call("startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" not in fault.faultString:
                raise LakewardError(
                    f"Cannot start {name}", why=fault.faultString, next=f"less {self.log}", code="LW-7023"
                ) from None

    def stop(self, name: str, *, wait: bool) -> None:
        """Stop a part, if it runs."""
        try:
            self._call("stopProcess", name, wait)
        except xmlrpc.client.Fault as fault:
            if "NOT_RUNNING" not in fault.faultString and "BAD_NAME" not in fault.faultString:
                raise LakewardError(
                    f"Cannot stop {name}", why=fault.faultString, next=f"less {self.log}", code="LW-7024"
                ) from None

    def shutdown(self) -> None:
        """Stop all parts and the supervisor, unless it ends already."""
        with suppress(OSError, xmlrpc.client.Fault):
            self._call("shutdown")

    def ending(self) -> bool:
        """Whether it was told to end, by a `stack down` that may have been killed since; it takes no commands then."""
        try:
            self._call("getState")
        except xmlrpc.client.Fault as fault:
            return fault.faultCode == _SHUTDOWN_STATE
        except OSError:
            return False
        return False

    def observe(self) -> dict[str, Observed]:
        """The state of every part.

        Raises:
            LakewardError: supervisord does not answer, or ends.
        """
        try:
            rows = cast(list[dict[str, Any]], self._call("getAllProcessInfo"))
        except (OSError, xmlrpc.client.Fault) as error:
            raise LakewardError(
                "supervisord does not answer", why=str(error), next=f"less {self.log}", code="LW-7022"
            ) from None
        return {
            row["name"]: Observed(row["name"], row["statename"], row["pid"], datetime.fromtimestamp(row["start"], UTC))
            for row in rows
        }

    def _call(self, method: str, *arguments: object) -> object:
        from supervisor.xmlrpc import SupervisorTransport

        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        # The address is not used: the transport connects to the socket.
        proxy = xmlrpc.client.ServerProxy("http://localhost", transport=transport)
        try:
            return getattr(proxy.supervisor, method)(*arguments)
        finally:
            transport.close()

    def _text(self, parts: Sequence[Part]) -> str:
        head = [
            "[supervisord]",
            f"logfile={_escaped(self.log)}",
            f"logfile_maxbytes={LOG_BYTES}",
            f"logfile_backups={LOGS_RETAINED}",
            f"pidfile={_escaped(self.folder / _PID)}",
            f"childlogdir={_escaped(self.logs)}",
            "minfds=1024",
            *(["user=root"] if os.geteuid() == 0 else []),
            "[unix_http_server]",
            f"file={_escaped(self.socket)}",
            "chmod=0600",
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        ]
        for part in parts:
            head += _section(self.folder, part, part.program())
        return "\n".join(head) + "\n"


def _section(folder: Path, part: Part, program: Program) -> list[str]:
    command = [sys.executable, "-m", "lakeward.stack.run", str(folder), part.name]
    return [
        f"[program:{part.name}]",
        f"command={_escaped(shlex.join(command))}",
        "directory=/",
        "autostart=false",
        "autorestart=true",
        "startsecs=3",
        # A dependency may be down for minutes (PostgreSQL restarts): supervisord must not give up.
        "startretries=1000000",
        f"stopsignal={program.stop}",
        f"stopwaitsecs={program.stop_wait_s}",
        "killasgroup=true",
        "redirect_stderr=true",
        f"stdout_logfile={_escaped(part.log)}",
        f"stdout_logfile_maxbytes={LOG_BYTES}",
        f"stdout_logfile_backups={LOGS_RETAINED}",
    ]


def _escaped(value: object) -> str:
    # supervisord expands %(name)s in every value.
    return str(value).replace("%", "%%")


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a log, indented; a sentence if there are none."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 16384))
            text = stream.read().decode(errors="replace")
    except OSError:
        return f"{log} does not exist"
    shown = [line for line in text.splitlines() if line.strip()][-lines:]
    return "\n        ".join(shown) or f"{log} is empty"
