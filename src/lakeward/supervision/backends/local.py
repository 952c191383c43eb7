"""Local backend: drivers as processes of this machine, detached from their starter.

A driver gets its own session, a clean environment and a file for its output, so that nothing that happens to the
starter (the end of an Airflow task, mark-failed, SIGKILL of the scheduler, Ctrl-C) reaches it. Under systemd or in
a container its cgroup is still the starter's, and a cgroup is killed as a whole: `LAKEWARD_DRIVER_WRAPPER` may name a
program that moves the driver out and executes it, e.g. `systemd-run --user --scope --collect --`.

Every launch has a folder `<drivers>/<driver>/<launch>/` with `launch.json` (0600), `process.json` (its identity) and
the driver's own files: `driver.log`, `stdout.log`, `exit.json`. If the starter dies before it writes `process.json`,
the process is found by its command line.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import cast

import psutil

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Launch
from lakeward.registry.drivers import Handle
from lakeward.supervision.backends import identity, threads
from lakeward.supervision.backends.base import ExitRecord, Job, Known, Life

INHERITED = ("PATH", "HOME", "LANG", "JAVA_HOME")
"""The environment variables a driver inherits. Airflow's environment has database keys and is not passed on."""
WRAPPER = "LAKEWARD_DRIVER_WRAPPER"
KEEP_LAUNCHES = 5
"""Number of launch folders, with their logs, that are kept for each driver."""
_POLL_S = 0.1


_children: list[subprocess.Popen[bytes]] = []
"""Started and not yet reaped: a long-lived starter must reap its own children."""


class LocalBackend:
    """Starts drivers as detached processes of this machine."""

    name = "local"

    def __init__(self, drivers: Path, *, wrapper: Sequence[str] = ()) -> None:
        """`drivers`: folder of all launches. `wrapper`: a command that is put before the driver's command."""
        self.drivers = drivers
        self._command = (*wrapper, sys.executable, "-m", "lakeward.driver")
        self._dead: dict[str, Job] = {}
        self._launches: dict[Path, tuple[str, str]] = {}
        self._handles: dict[Path, Handle] = {}

    @classmethod
    def of_environment(cls, drivers: Path) -> LocalBackend:
        """The backend of this process, with the wrapper from its environment."""
        return cls(drivers, wrapper=shlex.split(os.environ.get(WRAPPER, "")))

    def start(self, launch: Launch) -> Job:
        """Write the launch file and start the driver."""
        folder, file = launch.folder, launch.folder / "launch.json"
        try:
            folder.mkdir(parents=True, mode=0o700)
            launch.write(file)
            with (folder / "stdout.log").open("ab") as out:
                child = subprocess.Popen(
                    [*self._command, str(file)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    env=_environment(launch),
                    start_new_session=True,
                )
        except OSError as error:
            raise LakewardError(
                f"Driver {launch.driver} could not be started",
                why=f"{error.filename or self._command[0]}: {error.strerror}",
                next="lakeward doctor",
                code="LW-2501",
            ) from error
        _children.append(child)
        handle = identity.of(child.pid)
        _write(folder / "process.json", handle)
        self._tidy(launch.driver, keep=folder)
        return Job(launch.driver, launch.token, Life.ALIVE, handle, identity.host(), str(folder))

    def find(self, known: Sequence[Known] = ()) -> list[Job]:
        """Every launch with a folder, and the known launches whose folder is missing."""
        _reap()
        jobs = list(self._launched())
        seen = {(job.driver, job.token) for job in jobs}
        for item in known:
            if (item.driver, item.token) not in seen:
                job = attempt(f"process of driver {item.driver}", partial(_known, item))
                unknown = Job(item.driver, item.token, Life.UNKNOWN, None, identity.host(), item.log)
                jobs.append(unknown if isinstance(job, Failure) else job)  # unknown is not dead
        return jobs

    def stop(self, job: Job, *, grace_s: float) -> bool:
        """SIGTERM to the driver (it ends at the next batch boundary), then SIGKILL to its group."""
        if job.handle is None or not identity.signal_leader(job.handle, signal.SIGTERM):
            return self.kill(job)
        if self._ended(job.handle, within_s=grace_s):
            return True
        return self.kill(job)

    def kill(self, job: Job) -> bool:
        """SIGKILL to the driver and its process group."""
        if job.handle is None:
            return job.life is Life.GONE
        identity.signal_group(job.handle, signal.SIGKILL)
        return self._ended(job.handle, within_s=5.0)

    def dump(self, job: Job) -> str | None:
        """Write the threads of the driver and of its JVM to a file in the launch's folder."""
        if job.handle is None or identity.life(job.handle) is not Life.ALIVE:
            return None
        written = threads.write(int(job.handle["pid"]), Path(job.log))
        return None if written is None else str(written)

    def _ended(self, handle: Handle, *, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while True:
            _reap()
            if identity.life(handle) is Life.GONE:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def _launched(self) -> Iterator[Job]:
        lines = cache(_by_launch_file)  # read once for all launches, as the groups
        groups = cache(identity.groups)
        try:
            folders = _folders(self.drivers)
        except OSError as error:
            raise DependencyDown(
                "The folder of driver launches cannot be read",
                why=f"{self.drivers}: {error.strerror}",
                next="lakeward doctor",
                code="LW-2502",
            ) from error
        for path in folders:
            if path in self._dead:
                yield self._dead[path]
                continue
            job = attempt(f"launch {path}", partial(self._job, Path(path, "launch.json"), lines, groups))
            if isinstance(job, Job):
                yield job

    def _job(
        self, file: Path, lines: Callable[[], dict[str, int]], groups: Callable[[], Mapping[int, Sequence[int]]]
    ) -> Job | None:
        """What is left of one launch; None if it is incomplete: the starter died before it started a process."""
        folder = file.parent
        launch = self._launch(file)
        if launch is None:
            return None
        driver, token = launch
        handle = self._handle(folder)
        if handle is None:
            pid = lines().get(str(file))
            handle = _identity(pid) if pid else None
        life = Life.GONE if handle is None else identity.life(handle, groups)
        last = None if life is Life.ALIVE else cast("ExitRecord | None", _read(folder / "exit.json"))
        stopped = life is Life.ALIVE and handle is not None and identity.stopped(int(handle["pid"]))
        job = Job(driver, token, life, handle, identity.host(), str(folder), last, stopped)
        if life is Life.GONE and handle is not None:
            self._dead[str(folder)] = job  # final: a dead launch does not change any more
        return job

    def _launch(self, file: Path) -> tuple[str, str] | None:
        """Driver and token of a launch file, which never changes."""
        if file not in self._launches:
            try:
                launch = Launch.read(file)
            except (OSError, ValueError):
                return None
            self._launches[file] = (launch.driver, launch.token)
        return self._launches[file]

    def _handle(self, folder: Path) -> Handle | None:
        """The identity recorded for a launch, which never changes."""
        if folder not in self._handles:
            handle = cast("Handle | None", _read(folder / "process.json"))
            if handle is None:
                return None
            self._handles[folder] = handle
        return self._handles[folder]

    def _tidy(self, driver: str, *, keep: Path) -> None:
        """Remove the folders of dead launches, except the newest."""
        folders = sorted((item for item in (self.drivers / driver).iterdir() if item.is_dir()), reverse=True)
        for folder in folders[KEEP_LAUNCHES:]:
            handle = self._handle(folder)
            if folder == keep or handle is None or identity.life(handle) is not Life.GONE:
                continue
            for file in sorted(folder.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
            folder.rmdir()
            self._dead.pop(str(folder), None)


def _folders(drivers: Path) -> list[str]:
    """The folders of all launches, `<drivers>/<driver>/<launch>`. A thousand drivers are listed each pass: as texts."""
    if not drivers.exists():
        return []
    found: list[str] = []
    for driver in _subfolders(drivers):
        with suppress(FileNotFoundError, PermissionError):
            found += _subfolders(driver)
    return sorted(found)


def _subfolders(folder: Path | str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir()]


def _known(item: Known) -> Job:
    life, host = identity.life(item.handle), str(item.handle.get("host", ""))
    stopped = life is Life.ALIVE and identity.stopped(int(item.handle["pid"]))
    return Job(item.driver, item.token, life, item.handle, host, item.log, stopped=stopped)


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]


def _environment(launch: Launch) -> dict[str, str]:
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment.setdefault("LANG", "C.UTF-8")
    if launch.runtime.pgpass is not None:
        environment["PGPASSFILE"] = str(launch.runtime.pgpass)
    return environment


def _by_launch_file() -> dict[str, int]:
    """Launch file -> pid of the group leader that was started with it, by the command lines of this machine."""
    pids: dict[str, int] = {}
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = process.info["cmdline"] or []
        if line and line[-1].endswith("/launch.json"):
            pid = process.info["pid"]
            try:
                leads = os.getpgid(pid) == pid
            except (ProcessLookupError, PermissionError):
                continue
            if leads:
                pids[line[-1]] = pid
    return pids


def _identity(pid: int) -> Handle | None:
    try:
        return identity.of(pid)
    except ProcessLookupError:
        return None


def _read(file: Path) -> dict[str, object] | None:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _write(file: Path, content: Mapping[str, object]) -> None:
    """Write a file atomically."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(dict(content)))
    fresh.replace(file)
