"""What a stream's Dag shows of its spec, and a cache of it: a project whose files did not change is not read again.

Reading a stream file with all its checks costs some 20 ms of CPU, and Airflow parses Dag files for ever. The cache is
one file in the home, named after nothing but its content's digest: any change of `conf/`, `expectations/` or of this
code makes it useless. Where it cannot be written, every parse reads everything.
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
    """A spec as its Dag shows it.

    Attributes:
        sources: (name, connector).
        every: how often a batch begins, in words.
        stall: after how long without a batch it is stalled.
        schedule: its cron fields, where it has a schedule.
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
        """What is shown of a spec."""
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
    """A stream file. `spec` is None when the file is wrong; `problems` says what is."""

    id: str
    file: str
    spec: DagSummary | None
    problems: tuple[str, ...]


def _every(trigger: Trigger) -> str:
    if trigger.schedule is not None:
        return f"while there is something, at {trigger.schedule} (UTC, cron)"
    if trigger.unbatched:
        return f"{trigger.kind.replace('_', ' ')}, a checkpoint every {trigger.interval}"
    return f"every {trigger.interval}"


def key(project: Project) -> str:
    """Changes with every byte of the project's files, and with this code."""
    digest = hashlib.sha256(f"{lakeward.__version__} {project.root}".encode())
    for file in _code():
        digest.update(f"{file.name} {file.stat().st_mtime_ns}".encode())
    for file in _files(project):
        digest.update(f"\0{file.relative_to(project.root)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def load(project: Project, wanted: str) -> list[Declared] | None:
    """What was kept under this key; None if that is something else, or nothing."""
    try:
        found = json.loads(_place(project).read_text())
        if found["key"] != wanted:
            return None
        return [
            Declared(item["id"], item["file"], _glance(item["spec"]), tuple(item["problems"]))
            for item in found["streams"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(project: Project, wanted: str, streams: list[Declared]) -> None:
    """Keep it for the next parse."""
    place = _place(project)
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"key": wanted, "streams": [asdict(item) for item in streams]}))
        fresh.replace(place)


def _place(project: Project) -> Path:
    return Home.locate(None, project).root / "cache" / FILE


def _glance(found: dict[str, Any] | None) -> DagSummary | None:
    if found is None:
        return None
    sources = tuple((str(name), str(connector)) for name, connector in found["sources"])
    return DagSummary(**{**found, "tags": tuple(found["tags"]), "sources": sources})


def _code() -> Iterator[Path]:
    package = Path(lakeward.__file__).parent
    yield from sorted((package / "spec").rglob("*.py"))
    yield Path(__file__)


def _files(project: Project) -> Iterator[Path]:
    for folder, names in ((project.root / "conf", "*"), (project.expectations, "*"), (project.python, "*.py")):
        if folder.is_dir():
            yield from sorted(item for item in folder.rglob(names) if item.is_file())
