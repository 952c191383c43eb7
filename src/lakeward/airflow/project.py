"""The declared streams of a project, for Dag files: no network, no database, no clock."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.airflow import dag_summary
from lakeward.airflow.dag_summary import Declared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakeward.platform.runtime import Project
    from lakeward.spec.model.settings import Settings
    from lakeward.spec.model.types import Duration


def declared(project: Project) -> list[Declared]:
    """Every stream file; an invalid file hides no other, and its stream keeps its Dag."""
    cache_key = dag_summary.key(project)
    known = dag_summary.load(project, cache_key)
    if known is None:
        known = _read(project)
        dag_summary.save(project, cache_key, known)
    return known


def _read(project: Project) -> list[Declared]:
    from lakeward.spec.read.loader import load_project

    loaded = load_project(project)
    errors: dict[str, list[str]] = {}
    for problem in loaded.problems:
        if problem.severity == "error":
            errors.setdefault(problem.file, []).append(problem.text())
    streams = {
        name: Declared(name, item.file, dag_summary.DagSummary.of(item.spec), tuple(errors.get(item.file, ())))
        for name, item in loaded.streams.items()
    }
    read = {item.file for item in streams.values()}
    for file, problems in errors.items():
        path = Path(file)
        if file in read or path.suffix != ".yaml" or (project.root / path).parent != project.streams:
            continue
        name = _id(path.stem)
        if name is not None and name not in streams:
            streams[name] = Declared(name, file, None, tuple(problems))
    return [streams[name] for name in sorted(streams)]


def named(stream: str) -> Declared:
    """A stream by its id alone, which is enough for a task to build its own Dag."""
    return Declared(stream, f"conf/streams/{stream}.yaml", None, ())


def scheduled(streams: Iterable[Declared]) -> list[Declared]:
    """The streams with a schedule."""
    return [stream for stream in streams if stream.spec is not None and stream.spec.schedule is not None]


def _id(stem: str) -> str | None:
    from lakeward.spec.model.types import StreamId

    try:
        return str(StreamId(stem))
    except ValueError:
        return None


def settings() -> Settings:
    """The project's settings; an invalid value has its default, and `config validate` reports it."""
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.settings_file import usable_settings

    return usable_settings(Project.locate())


def table_intervals(project: Project) -> tuple[timedelta | None, timedelta | None]:
    """The intervals of table observation and of orphan file removal: the shortest of all policies; None without one."""
    from lakeward.spec.read.loader import load_project

    tables = load_project(project).tables
    rules = (tables.defaults, *tables.policies, *tables.unsafe)
    observe = [rule.observe for rule in rules if rule.observe is not None]
    orphans = [rule.orphans.every for rule in rules if rule.orphans is not None and rule.orphans.every is not None]
    return _least(observe), _least(orphans)


def _least(intervals: Iterable[Duration]) -> timedelta | None:
    return min((interval.timedelta for interval in intervals), default=None)
