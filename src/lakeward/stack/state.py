"""State file of one embedded stack between commands: `stack.json` in its home."""

from __future__ import annotations

import fcntl
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from lakeward.platform.errors import LakewardError, Refused, SpecError
from lakeward.platform.runtime import Home
from lakeward.stack import private

DEFAULT_PORTS = {"postgres": 15432, "kafka": 19092, "kafka-controller": 19093, "airflow": 8080, "connect": 15002}

LOCK = "stack.lock"


class Process(BaseModel):
    """The identity of a process: pid, start time, boot id. A reused pid has another identity."""

    model_config = ConfigDict(frozen=True)

    pid: int
    created: float
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The identity of a live process."""
        return cls(pid=pid, created=psutil.Process(pid).create_time(), boot=boot_id())

    def alive(self) -> bool:
        """Whether this process is alive; a zombie is not."""
        if self.boot != boot_id():
            return False
        try:
            process = psutil.Process(self.pid)
            same = bool(abs(process.create_time() - self.created) < 1)
            return same and bool(process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


class StackState(BaseModel):
    """The contents of `stack.json`.

    Attributes:
        ports: part -> loopback port, chosen at the first start and reused while free.
        supervisor: the running (or last) supervisor; its pid is the session of every part.
        parts: the groups of the last `up`.
        airflow_database: the Airflow version to which the database was last migrated.
    """

    ports: dict[str, int] = {}
    supervisor: Process | None = None
    parts: list[str] = []
    airflow_database: str = ""

    @classmethod
    def load(cls, home: Home) -> StackState:
        """The recorded state; empty if no stack was ever started.

        Raises:
            SpecError: the home is a file, or cannot be read.
            LakewardError: the state file is damaged.
        """
        try:
            return cls.model_validate_json(_file(home).read_text())
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise _unusable(home, error) from None
        except ValueError as error:
            raise LakewardError(
                "The stack's state file is damaged",
                why=f"{_file(home)}: {error}",
                next=f"rm {shlex.quote(str(_file(home)))}, then: lakeward stack down   (it finds running processes)",
                code="LW-7019",
            ) from None

    def save(self, home: Home) -> None:
        """Write the state."""
        private.write(_file(home), self.model_dump_json(indent=2) + "\n")

    @property
    def running(self) -> bool:
        """Whether the supervisor is alive."""
        return self.supervisor is not None and self.supervisor.alive()


def _unusable(home: Home, error: OSError) -> SpecError:
    return SpecError(
        f"{home.root} cannot be the home of a stack",
        why=error.strerror or "",
        next="name another folder: --home DIR",
        code="LW-7018",
    )


@contextmanager
def exclusive(home: Home) -> Iterator[None]:
    """One `stack up` or `stack down` at a time in a home.

    Raises:
        Refused: another command is running.
    """
    try:
        home.root.mkdir(parents=True, exist_ok=True)
        file = (home.root / LOCK).open("w")
    except OSError as error:
        raise _unusable(home, error) from None
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                "Another `lakeward stack` command is running in this home",
                why=str(home.root),
                next="wait until it has ended, then retry",
                code="LW-7020",
            ) from None
        yield


def boot_id() -> str:
    """The id of the present boot of this machine."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text().strip() if file.exists() else str(int(psutil.boot_time()))


def _file(home: Home) -> Path:
    return home.root / "stack.json"
