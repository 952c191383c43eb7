"""The order of a check run from a project's suites.

A missing or invalid suite that is asked for by name is reported before anything starts. In a run over all suites an
invalid one is an error of its own table, and the others are checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Project
from lakeward.quality.engine.timeouts import PLANNING_S
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.request import Request
from lakeward.spec.model.suite import Suite
from lakeward.spec.read.loader import load_project, load_settings
from lakeward.spec.read.problems import Problem, nearest, raise_if_any

LINT = "lakeward quality lint"


def order(request: Request, *, strict: bool = False) -> RunOrder:
    """The order for a request.

    Args:
        strict: raise for any invalid suite, also in a request without names.

    Raises:
        SpecError: a requested suite is missing or invalid.
    """
    if request.suite is not None:
        return _with_own(request, request.suite)
    loaded = load_project(Project(request.project))
    wrong = [problem for problem in loaded.problems if problem.file.startswith("expectations/")]
    suites = {str(table): suite for table, suite in loaded.suites.items()}
    if request.tables is None:
        if strict:
            raise_if_any(wrong, LINT)
        invalid = _invalid(wrong)
        valid = {table: suite for table, suite in suites.items() if table not in invalid}
        return RunOrder(
            valid, None, request.scope,
            keep=_keep(request.project), patience_s=request.patience_s, planning_s=_planning(request.project),
            invalid=invalid, files=_files(request.project, valid),
        )  # fmt: skip
    paths = {f"expectations/{table}.yaml" for table in request.tables}
    raise_if_any([problem for problem in wrong if problem.file in paths], LINT)
    for table in request.tables:
        if table not in suites:
            raise SpecError(
                f"{table} has no suite",
                why=_known(table, suites),
                next=f"write expectations/{table}.yaml, then: {LINT}",
                code="LW-5023",
            )
    return RunOrder(
        suites, request.tables, request.scope,
        upto=request.upto, keep=_keep(request.project), patience_s=request.patience_s,
        planning_s=_planning(request.project), files=_files(request.project, suites),
    )  # fmt: skip


def _invalid(problems: Sequence[Problem]) -> dict[str, str]:
    """Table -> the errors of its suite. Its run is an error: a table that is skipped would look proven."""
    found: dict[str, list[str]] = {}
    for problem in problems:
        if problem.severity == "error":
            table = problem.file.removeprefix("expectations/").rpartition(".")[0]
            found.setdefault(table, []).append(" ".join(problem.text().split()))
    return {table: f"its suite is invalid: {'; '.join(errors)}" for table, errors in found.items()}


def _files(project: Path, suites: Mapping[str, Suite]) -> dict[str, Path]:
    return {table: Project(project).expectations / f"{table}.yaml" for table in suites}


def _keep(project: Path) -> timedelta | None:
    """Retention of results in the lake; None if the settings are invalid, because the default might remove too much."""
    try:
        return load_settings(Project(project)).keep.results.timedelta
    except SpecError:
        return None


def _planning(project: Path) -> float:
    """Timeout of a plan in seconds; the default if the settings are invalid, which every run reports."""
    try:
        return load_settings(Project(project)).checker.planning.timedelta.total_seconds()
    except SpecError:
        return PLANNING_S


def _with_own(request: Request, file: Path) -> RunOrder:
    suite, problems = read_suite(file, Project(Path(request.project)))
    raise_if_any(problems, f"{LINT}")
    if suite is None or not request.tables or len(request.tables) != 1:
        raise SpecError(
            "Option --suite needs exactly one table",
            why=f"--suite {file} was given with {', '.join(request.tables or ()) or 'no table'}.",
            next=f"lakeward quality run NAMESPACE.TABLE --suite {file}",
            code="LW-5022",
        )
    files = {request.tables[0]: file}
    return RunOrder({request.tables[0]: suite}, request.tables, request.scope, own_suite=False, files=files)


def read_suite(file: Path, project: Project) -> tuple[Suite | None, list[Problem]]:
    """One suite file at any path, and its problems.

    Args:
        project: whose settings name the lake's catalog.
    """
    from pydantic import ValidationError

    from lakeward.spec.read.files import Files
    from lakeward.spec.read.messages import findings
    from lakeward.spec.read.settings_file import usable_settings

    files = Files(file.parent)
    document = files.document(file)
    if document is None:
        return None, files.problems
    known = usable_settings(project).known_catalogs
    try:
        return Suite.model_validate(document.data, context=known), files.problems
    except ValidationError as error:
        for finding in findings(error, Suite, document.data):
            files.found(file, document, finding)
        return None, files.problems


def _known(table: str, suites: dict[str, Suite]) -> str:
    close = nearest(table, suites)
    listed = f"suites: {', '.join(sorted(suites))}" if suites else "the project has no suite yet"
    return f"expectations/{table}.yaml does not exist; {listed}" + (f"; did you mean {close}?" if close else "")
