"""`config validate --deep`: what only Spark can tell about the project's specs, with file, line and column."""

from __future__ import annotations

from typing import Any

from lakeward.control import analysis
from lakeward.control.analysis import Finding
from lakeward.runtime import Project
from lakeward.spec.document import read_document
from lakeward.spec.files import dotted
from lakeward.spec.loader import Loaded, LoadedStream
from lakeward.spec.problems import Problem, nearest
from lakeward.spec.stream import written_path


def deep_problems(project: Project, loaded: Loaded) -> list[Problem]:
    """Everything Spark's analysis finds wrong with the transforms, rules and sinks of a project without problems."""
    with analysis.session() as spark:
        return [
            _problem(project, stream, found)
            for stream in (loaded.streams[name] for name in sorted(loaded.streams))
            for found in analysis.findings(spark, stream.spec)
        ]


def _problem(project: Project, stream: LoadedStream, found: Finding) -> Problem:
    document = read_document((project.root / stream.file).read_text(encoding="utf-8-sig"))
    written: Any = written_path(found.path, document.data)
    if found.path == ("transform", "sql") and stream.sql_file:
        name, (line, column) = stream.sql_file, found.place or (1, 1)
    else:
        at = document.inside(written, *(found.place or (None, None)))
        name, line, column = stream.file, at.line, at.column
    suggestion = nearest(found.value or "", found.valid)
    return Problem(name, line, column, dotted(written), found.message, found.value, found.valid, suggestion)
