"""Dag summaries: the part of a spec that its Dag shows, and a cache, so that unchanged files are not read again.

Reading a stream file with all its checks costs about 20 ms of CPU, and Airflow parses Dag files continuously. The cache
is one file in the home with a key: any change of `conf/`, `expectations/` or of this code invalidates it. If it cannot
be written, every parse reads all files.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakeward
from lakeward.platform.runtime import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeward.platform.runtime import Project
    from lakeward.spec.model.stream import StreamSpec
    from lakeward.spec.model.trigger import Trigger

FILE = "streams.json"


@dataclass(frozen=True)
class DagSummary:
    """The part of a spec that its Dag shows.

    Attributes:
        sources: (name, connector).
        every: how often a batch begins, in words.
        stall: the time without a batch after which it is stalled.
        schedule: its cron fields; None without a schedule.
    """

    owner: str
    team: str | None
    tags: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    sink: str
    sink_connector: str
    sink_mode: str
    every: str
    driver: str
    stall: str
    schedule: str | None = None

    @classmethod
    def of(cls, spec: StreamSpec) -> DagSummary:
        """The summary of a spec."""
        return cls(
            owner=str(spec.owner),
            team=None if spec.team is None else str(spec.team),
            tags=tuple(str(tag) for tag in spec.tags),
            sources=tuple((str(name), source.connector) for name, source in spec.sources.items()),
            sink=spec.sink.label,
            sink_connector=spec.sink.connector,
            sink_mode=str(spec.sink.mode),
            every=_every(spec.trigger),
            driver=str(spec.driver),
            stall=str(spec.limits.stall),
            schedule=None if spec.trigger.schedule is None else str(spec.trigger.schedule),
        )


@dataclass(frozen=True)
class Declared:
    """A stream file. `spec` is None if the file is not valid; `problems` says why."""

    id: str
    file: str
    spec: DagSummary | None
    problems: tuple[str, ...]


def _every(trigger: Trigger) -> str:
    if trigger.schedule is not None:
        return f"until all available records have landed, at {trigger.schedule} (UTC, cron)"
    if trigger.unbatched:
        return f"{trigger.kind.replace('_', ' ')}, a checkpoint every {trigger.interval}"
    return f"every {trigger.interval}"


def key(project: Project) -> str:
    """The cache key: changes with every byte of the project's files, and with this code."""
    digest = hashlib.sha256(f"{lakeward.__version__} {project.root}".encode())
    for file in _code():
        digest.update(f"{file.name} {file.stat().st_mtime_ns}".encode())
    for file in _files(project):
        digest.update(f"\0{file.relative_to(project.root)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def load(project: Project, key: str) -> list[Declared] | None:
    """The cached streams; None if there is no cache or its key differs."""
    try:
        cached = json.loads(_cache_file(project).read_text())
        if cached["key"] != key:
            return None
        return [
            Declared(item["id"], item["file"], _summary(item["spec"]), tuple(item["problems"]))
            for item in cached["streams"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(project: Project, key: str, streams: list[Declared]) -> None:
    """Store the streams for the next parse."""
    file = _cache_file(project)
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"key": key, "streams": [asdict(item) for item in streams]}))
        temporary.replace(file)


def _cache_file(project: Project) -> Path:
    return Home.locate(None, project).root / "cache" / FILE


def _summary(stored: dict[str, Any] | None) -> DagSummary | None:
    if stored is None:
        return None
    sources = tuple((str(name), str(connector)) for name, connector in stored["sources"])
    return DagSummary(**{**stored, "tags": tuple(stored["tags"]), "sources": sources})


def _code() -> Iterator[Path]:
    package = Path(lakeward.__file__).parent
    yield from sorted((package / "spec").rglob("*.py"))
    yield Path(__file__)


def _files(project: Project) -> Iterator[Path]:
    for folder, names in ((project.root / "conf", "*"), (project.expectations, "*"), (project.python, "*.py")):
        if folder.is_dir():
            yield from sorted(item for item in folder.rglob(names) if item.is_file())
