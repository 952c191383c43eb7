"""`config validate --deep`: problems that only Spark's analysis finds, with file, line and column."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from lakeward.connectors.delta import location
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.connectors.kubernetes import examine as kubernetes
from lakeward.connectors.spark import examine as standalone
from lakeward.connectors.yarn import examine as yarn
from lakeward.engine import analysis
from lakeward.engine.analysis import Finding
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.spec.model.stream import written_path
from lakeward.spec.read.document import read_document
from lakeward.spec.read.files import dotted
from lakeward.spec.read.loader import Loaded, LoadedStream
from lakeward.spec.read.problems import Problem, nearest
from lakeward.stack.site import lake_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deep_problems(project: Project, loaded: Loaded, runtime: Runtime | None) -> list[Problem]:
    """The problems that Spark's analysis finds in the transforms, rules and sinks of an otherwise valid project.

    Args:
        runtime: of a running stack, for reference tables; None without one.
    """
    streams = [loaded.streams[name] for name in sorted(loaded.streams)]
    with analysis.session([stream.spec for stream in streams], runtime) as spark:
        return [_problem(project, stream, finding) for stream in streams for finding in _found(spark, stream, runtime)]


def _found(spark: SparkSession, stream: LoadedStream, runtime: Runtime | None) -> list[Finding]:
    """What the analysis finds in one stream; a failure of the analysis itself is a finding, too: the others go on."""
    name = f"stream {stream.spec.id}"
    found = attempt(name, lambda: list(analysis.findings(spark, stream.spec, runtime=runtime)))
    if isinstance(found, Failure):
        return [Finding(("transform",), f"Spark cannot analyse this stream: {found.words}")]
    return found


def catalog_problems(project: Project, home: Home, loaded: Loaded) -> list[Problem]:
    """What each catalog of the settings refuses, or lacks: at its place in `conf/lakeward.yaml`."""
    file = project.settings_file
    document = read_document(file.read_text(encoding="utf-8-sig"))
    lake = lake_of(loaded.settings, home, 0)
    configured = (*([] if loaded.settings.lake is None else [lake]), *lake.others)
    answers = [(("catalogs", each.name), answer) for each in configured for answer in answers_of(each)]
    places = {path: document.place(path, key=True) for path, _ in answers}
    return [
        Problem(
            str(file.relative_to(project.root)), places[path].line, places[path].column, dotted(path),
            f"{answer.name}: {answer.found}; {answer.next or answer.wanted}", None, (), None,
            "error" if answer.severe else "warning",
        )
        for path, answer in answers
        if not answer.ok
    ]  # fmt: skip


def delta_problems(project: Project, home: Home, loaded: Loaded) -> list[Problem]:
    """Why the object store of the settings cannot hold the Delta tables of streams: at their sinks."""
    streams = [each for _, each in sorted(loaded.streams.items()) if each.spec.sink.delta is not None]
    if not streams:
        return []
    try:
        location.try_store(lake_of(loaded.settings, home, 0))
    except LakewardError as error:
        finding = f"{error.what}: {error.why}; {error.next}"
        return [_problem(project, each, Finding(("sink", "delta"), finding)) for each in streams]
    return []


def cluster_problems(project: Project, home: Home, loaded: Loaded) -> list[Problem]:
    """Why a cluster would not run drivers of the settings: at their places in `conf/lakeward.yaml`."""
    kinds = (kubernetes, yarn, standalone)
    answers = chain.from_iterable(each.examine(loaded.settings, home.secrets) for each in kinds)
    found = [(("drivers", each.driver, *filter(None, [each.key])), each) for each in answers if each.next]
    if not found:
        return []
    file = project.settings_file
    document = read_document(file.read_text(encoding="utf-8-sig"))
    places = {path: document.place(path, key=True) for path, _ in found}
    return [
        Problem(
            str(file.relative_to(project.root)), places[path].line, places[path].column,
            dotted(path), f"{each.found}; {each.next}", None, (), None, "error",
        )
        for path, each in found
    ]  # fmt: skip


def _problem(project: Project, stream: LoadedStream, finding: Finding) -> Problem:
    document = read_document((project.root / stream.file).read_text(encoding="utf-8-sig"))
    written: Any = written_path(finding.path, document.data)
    if finding.file is not None:
        name, (line, column) = finding.file, finding.place or (1, 1)
    elif finding.path == ("transform", "sql") and stream.sql_file:
        name, (line, column) = stream.sql_file, finding.place or (1, 1)
    else:
        at = document.inside(written, *(finding.place or (None, None)))
        name, line, column = stream.file, at.line, at.column
    suggestion = nearest(finding.value or "", finding.valid)
    severity: Literal["error", "warning"] = "warning" if finding.warning else "error"
    return Problem(
        name, line, column, dotted(written), finding.message, finding.value, finding.valid, suggestion, severity
    )
