"""The streams a project declares, as Dag files see them: no network, no database, no clock; no file hides another."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.airflow import glance
from lakeward.airflow.glance import Declared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakeward.platform.runtime import Project
    from lakeward.spec.model.settings import Settings
    from lakeward.spec.model.types import Duration


def declared(project: Project) -> list[Declared]:
    """Every stream file, also a wrong one: a stream that runs keeps its Dag while its file is wrong."""
    wanted = glance.key(project)
    known = glance.load(project, wanted)
    if known is None:
        known = _read(project)
        glance.save(project, wanted, known)
    return known


def _read(project: Project) -> list[Declared]:
    from lakeward.spec.read.loader import load_project

    loaded = load_project(project)
    wrong: dict[str, list[str]] = {}
    for problem in loaded.problems:
        if problem.severity == "error":
            wrong.setdefault(problem.file, []).append(problem.text())
    found = {
        name: Declared(name, item.file, glance.DagSummary.of(item.spec), tuple(wrong.get(item.file, ())))
        for name, item in loaded.streams.items()
    }
    read = {item.file for item in found.values()}
    for file, problems in wrong.items():
        path = Path(file)
        if file in read or path.suffix != ".yaml" or (project.root / path).parent != project.streams:
            continue
        name = _id(path.stem)
        if name is not None and name not in found:
            found[name] = Declared(name, file, None, tuple(problems))
    return [found[name] for name in sorted(found)]


def named(stream: str) -> Declared:
    """A stream by its id alone: all a task needs to build its own Dag."""
    return Declared(stream, f"conf/streams/{stream}.yaml", None, ())


def scheduled(streams: Iterable[Declared]) -> list[Declared]:
    """Those of the streams that run by a schedule."""
    return [each for each in streams if each.spec is not None and each.spec.schedule is not None]


def _id(stem: str) -> str | None:
    from lakeward.spec.model.types import StreamId

    try:
        return str(StreamId(stem))
    except ValueError:
        return None


def settings() -> Settings:
    """The project's settings; what is wrong in the file is left at its default, `config validate` tells it."""
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.loader import load_project

    return load_project(Project.locate()).settings


def table_intervals(project: Project) -> tuple[timedelta | None, timedelta | None]:
    """How often tables are looked at, and how often for orphan files: what the most impatient policy of the project
    asks for; None if none does."""
    from lakeward.spec.read.loader import load_project

    tables = load_project(project).tables
    rules = (tables.defaults, *tables.policies, *tables.unsafe)
    observe = [rule.observe for rule in rules if rule.observe is not None]
    orphans = [rule.orphans.every for rule in rules if rule.orphans is not None and rule.orphans.every is not None]
    return _least(observe), _least(orphans)


def _least(asked: Iterable[Duration]) -> timedelta | None:
    return min((span.timedelta for span in asked), default=None)
