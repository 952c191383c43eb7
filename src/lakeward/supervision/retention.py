"""Upkeep: what is past its keep time goes, a few times a day: rows of the registry, old launches, old Data Docs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from sqlalchemy import func, select

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
"""A purge works no longer than this; the next one goes on."""
STDOUT_BYTES = 50 * 1024 * 1024
"""What Spark and Python print in months of one launch; the other logs rotate by themselves."""
_SETTLED_S = 3600.0


@dataclass(frozen=True)
class Tidied:
    """What went: rows by table, and folders of launches."""

    rows: dict[str, int] = field(default_factory=dict)
    folders: int = 0


def purge_if_due(
    runtime: Runtime, keep: Keep | None = None, backend: Backend | None = None, *, patience: float = 1.0
) -> dict[str, int]:
    """Tidy up unless that was done lately; returns the rows removed by table, and `launches` for folders.

    `patience` times the usual interval must have passed: more than 1 for who only steps in for somebody else.
    """
    connect = registry_of(runtime)
    if not due(connect, "registry", EVERY_S * patience):
        return {}
    done = tidy(connect, runtime, keep or Keep(), backend or backend_of(runtime))
    counts = {**done.rows, **({"launches": done.folders} if done.folders else {})}
    told(connect, "registry", f"Removed {sum(done.rows.values()):,} rows and {done.folders} launches", counts)
    return counts


def due(connect: Connect, what: str, every_s: float) -> bool:
    """Whether this was last done longer ago than that."""
    with connect() as connection:
        last = events.newest_of_kind(connection, "stack", "purged").get(what)
        now: datetime = connection.execute(select(func.now())).scalar_one()
    return last is None or (now - last["at"]).total_seconds() >= every_s


def told(connect: Connect, what: str, text: str, counts: dict[str, int]) -> None:
    """Remember that it was done."""
    with connect() as connection:
        events.record(connection, "stack", what, "purged", text, **counts)


def tidy(connect: Connect, runtime: Runtime, keep: Keep, backend: Backend, *, box_s: float = BOX_S) -> Tidied:
    """Remove everything past its keep time."""
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
    found = observe.ask(backend, facts)
    if found is None:
        return Tidied(rows)  # what lives is not known: no folder is touched
    alive = {Path(job.log).resolve() for job in found if job.life is not Life.GONE and job.log}
    return Tidied(rows, launches(runtime.drivers, alive, keep.launches.timedelta))


def launches(drivers: Path, alive: Iterable[Path], keep: timedelta) -> int:
    """Remove the folders of launches that ended longer ago than that, but the newest of each driver; returns how many.

    Of those that stay, the dead ones lose Spark's scratch files, and of the living ones `stdout.log` is kept short. A
    folder without `launch.json` is none that Lakeward made: nothing in it is touched.
    """
    living = set(alive)
    removed = 0
    if not drivers.is_dir():
        return 0
    for driver in sorted(item for item in drivers.iterdir() if item.is_dir()):
        folders = sorted((item.parent for item in driver.glob("*/launch.json")), reverse=True)
        for number, folder in enumerate(folders):
            if folder.resolve() in living:
                _shorten(folder / "stdout.log")
            elif _age(folder) < _SETTLED_S:
                continue  # it may just be starting
            elif number and _age(folder) > keep.total_seconds():
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
            else:
                shutil.rmtree(folder / "tmp", ignore_errors=True)
    return removed


def _age(folder: Path) -> float:
    """Seconds since anything in the folder was written."""
    newest = max((item.stat().st_mtime for item in (folder, *folder.glob("*"))), default=0.0)
    return time.time() - newest


def _shorten(file: Path) -> None:
    """Begin a file anew that a process appends to; what stood in it is kept once beside it."""
    try:
        if file.stat().st_size <= STDOUT_BYTES:
            return
        kept = file.with_name(f"{file.name}.1")
        with file.open("rb") as source, kept.open("wb") as sink:
            source.seek(-STDOUT_BYTES // 10, os.SEEK_END)
            shutil.copyfileobj(source, sink)
        os.truncate(file, 0)
    except OSError as error:
        log.warning(f"{file} cannot be kept short", why=str(error))
