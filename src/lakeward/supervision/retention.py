"""Retention: remove expired registry rows, launch folders and Data Docs, a few times a day."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import func, select

from lakeward.platform.boundary import attempt
from lakeward.platform.runtime import Runtime
from lakeward.quality.results import data_docs
from lakeward.registry import events
from lakeward.registry.purge import purge, times
from lakeward.spec.model.settings import Keep
from lakeward.supervision import observe
from lakeward.supervision.backends.base import Backend, Life
from lakeward.supervision.observe import Connect
from lakeward.supervision.reconcile import backend_of, registry_of

log = structlog.get_logger(__name__)

EVERY_S = 6 * 3600.0
BOX_S = 30.0
"""Time limit of a purge; the next one continues."""
STDOUT_BYTES = 50 * 1024 * 1024
"""Size limit of `stdout.log`, which grows for months of one launch; the other logs rotate by themselves."""
_SETTLED_S = 3600.0


@dataclass(frozen=True)
class Tidied:
    """What was removed: rows by table, and folders of launches."""

    rows: dict[str, int] = field(default_factory=dict)
    folders: int = 0


def purge_if_due(
    runtime: Runtime, keep: Keep | None = None, backend: Backend | None = None, *, patience: float = 1.0
) -> dict[str, int]:
    """Purge unless that was done recently; returns the rows removed by table, and `launches` for folders.

    `patience` times the usual interval must have passed: more than 1 for a caller that is only a fallback.
    """
    connect = registry_of(runtime)
    if not due(connect, "registry", EVERY_S * patience):
        return {}
    done = tidy(connect, runtime, keep or Keep(), backend or backend_of(runtime))
    counts = {**done.rows, **({"launches": done.folders} if done.folders else {})}
    record(connect, "registry", f"Removed {sum(done.rows.values()):,} rows and {done.folders} launches", counts)
    return counts


def due(connect: Connect, what: str, every_s: float) -> bool:
    """Whether this was last done longer ago than `every_s`."""
    with connect() as connection:
        last = events.newest_of_kind(connection, "stack", "purged").get(what)
        now: datetime = connection.execute(select(func.now())).scalar_one()
    return last is None or (now - last.at).total_seconds() >= every_s


def record(connect: Connect, what: str, text: str, counts: dict[str, int]) -> None:
    """Record that it was done."""
    with connect() as connection:
        events.record(connection, "stack", what, "purged", text, **counts)


def tidy(connect: Connect, runtime: Runtime, keep: Keep, backend: Backend, *, box_s: float = BOX_S) -> Tidied:
    """Remove everything that is past its retention time."""
    end = time.monotonic() + box_s
    rows: dict[str, int] = {}
    while time.monotonic() < end:
        with connect() as connection:
            removed = purge(connection, times(keep))
        for name, number in removed.items():
            rows[name] = rows.get(name, 0) + number
        if not removed:
            break
    if data_docs.outdated(runtime.data_docs, keep.samples.timedelta):
        data_docs.remove(runtime.data_docs)
    with connect() as connection:
        facts = observe.read(connection)
    jobs = observe.observed_jobs(backend, facts)
    if jobs is None:
        return Tidied(rows)  # it is not known which launches are alive: no folder is touched
    alive = {Path(job.log).resolve() for job in jobs if job.life is not Life.GONE and job.log}
    return Tidied(rows, launches(runtime.drivers, alive, keep.launches.timedelta))


def launches(drivers: Path, alive: Iterable[Path], keep: timedelta) -> int:
    """Remove the folders of launches that ended longer than `keep` ago, except each driver's newest; returns how many.

    Of the remaining launches, ended ones lose Spark's scratch files, and `stdout.log` of running ones is truncated. A
    folder without `launch.json` was not created by Lakeward and is not touched.
    """
    living = set(alive)
    removed = 0
    if not drivers.is_dir():
        return 0
    for driver in sorted(item for item in drivers.iterdir() if item.is_dir()):
        folders = sorted((item.parent for item in driver.glob("*/launch.json")), reverse=True)
        for number, folder in enumerate(folders):
            done = attempt(f"launch {folder}", partial(_launch, folder, living, keep, newest=number == 0))
            removed += done is True
    return removed


def _launch(folder: Path, living: set[Path], keep: timedelta, *, newest: bool) -> bool:
    """Clean up one launch; returns whether its folder was removed."""
    if folder.resolve() in living:
        _shorten(folder / "stdout.log")
    elif _age(folder) < _SETTLED_S:
        pass  # it may just be starting
    elif not newest and _age(folder) > keep.total_seconds():
        shutil.rmtree(folder, ignore_errors=True)
        return True
    else:
        shutil.rmtree(folder / "tmp", ignore_errors=True)
    return False


def _age(folder: Path) -> float:
    """Seconds since anything in the folder was written."""
    newest = max((item.stat().st_mtime for item in (folder, *folder.glob("*"))), default=0.0)
    return time.time() - newest


def _shorten(file: Path) -> None:
    """Truncate a file that a process appends to; its last part is kept as `<file>.1`."""
    try:
        if file.stat().st_size <= STDOUT_BYTES:
            return
        previous = file.with_name(f"{file.name}.1")
        with file.open("rb") as source, previous.open("wb") as sink:
            source.seek(-STDOUT_BYTES // 10, os.SEEK_END)
            shutil.copyfileobj(source, sink)
        os.truncate(file, 0)
    except OSError as error:
        log.warning("log file not truncated", file=str(file), why=str(error))
