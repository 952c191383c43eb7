"""Lint of suites against Great Expectations' models: no Spark, no data, all problems in one pass, each with its place.

Imports Great Expectations (seconds of CPU): for the command line only, never for a Dag file or a loop.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

from pydantic import ValidationError as PydanticError

from lakeward.platform.runtime import Project
from lakeward.quality.engine.failing_rows import one_by_one
from lakeward.spec.checks import quarantine
from lakeward.spec.checks.reference_files import exists
from lakeward.spec.model.base import SpecModel
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.model.java_regex import no_pattern
from lakeward.spec.read.document import Path_
from lakeward.spec.read.files import Files
from lakeward.spec.read.loader import load_project
from lakeward.spec.read.messages import Finding, findings
from lakeward.spec.read.problems import Problem, nearest
from lakeward.spec.sql.statements import SqlProblem, parse_select

# Fields of GX's models that are not arguments of an expectation; those in `_BESIDE` are keys of the suite's grammar.
_NOT_KWARGS = frozenset(
    (
        "id",
        "meta",
        "notes",
        "description",
        "result_format",
        "catch_exceptions",
        "rendered_content",
        "library_metadata",
        "windows",
        "batch_id",
    )
)
_BESIDE = frozenset(("severity",))
_REGEX = "expect_column_values_to_match_regex"


def _nothing(table: str) -> str:
    return ""


def lint(project: Project) -> list[Problem]:
    """Every problem of the project's suites: in their form, and in their expectations."""
    files = Files(project.root)
    loaded = load_project(project)
    known = loaded.problems
    formal = [each for each in known if each.file.startswith("expectations/")]
    if not exists(project.streams, Path.is_dir):  # not a project: a wrong path must not pass as valid
        formal += [each for each in known if each.file == "conf/streams"]
    if exists(project.expectations, Path.is_dir):
        # A stream with an invalid file may be the one that lands in the table.
        whole = not any(each.severity == "error" and not each.file.startswith("expectations/") for each in known)
        obstacle_of = partial(quarantine.obstacle_of, specs=loaded.specs) if whole else _nothing
        for file in sorted(project.expectations.glob("[!.]*.yaml")):  # files that begin with a dot belong to editors
            lint_file(files, file, obstacle_of=obstacle_of)
    found = {**dict.fromkeys(formal), **dict.fromkeys(files.problems)}  # the loader reports YAML errors too
    return sorted(found, key=lambda each: (each.file, each.line, each.column, each.path))


def lint_file(
    files: Files, file: Path, today: date | None = None, obstacle_of: Callable[[str], str] = _nothing
) -> None:
    """Add the problems of one suite's expectations to `files`.

    Args:
        obstacle_of: table -> why its rows cannot be quarantined, as a clause.
    """
    document = files.document(file)
    if document is None:
        return
    now = today or datetime.now(UTC).date()
    listed, obstacle = document.data.get("expectations"), obstacle_of(str(document.data.get("table")))
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(each, dict):
            continue  # the loader reports it
        at: Path_ = ("expectations", index)
        for finding in (*_of_type(at, each), *_of_kwargs(at, each), *_of_effect(at, each, obstacle)):
            files.found(file, document, finding)
        waived = _day(each.get("waive_until"))
        if waived is not None and waived < now:
            place = document.place((*at, "waive_until"))
            message = "this waiver has ended: failures count again; remove it or renew it"
            path = (*at, "waive_until")
            files.add(file, place.line, place.column, path, message, str(waived), warning=True)


def known_types() -> tuple[str, ...]:
    """The names of Great Expectations' expectations."""
    return tuple(sorted(_registry().list_registered_expectation_implementations()))


def _registry() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which would send a network request
    import great_expectations.expectations.core  # noqa: F401 - importing it is what fills the registry
    from great_expectations.expectations import registry

    return registry


def _of_type(at: Path_, each: dict[str, Any]) -> Iterator[Finding]:
    name = each.get("type")
    if isinstance(name, str) and name not in OWN and name not in known_types():
        close = nearest(name, (*known_types(), *OWN))
        valid = (close,) if close else ()
        yield Finding((*at, "type"), "Great Expectations has no such expectation", name, valid, close)
    elif isinstance(name, str) and name not in OWN and not on_spark(name):
        message = (
            "Great Expectations computes this in pandas or SQL databases, not on Spark: every run would be an error"
        )
        yield Finding((*at, "type"), message, name, (_REGEX,) if "like_pattern" in name else ())


def on_spark(name: str) -> bool:
    """Whether Great Expectations can compute a known expectation on Spark."""
    registry = _registry()
    model = registry.get_expectation_impl(name)
    metric = registry._registered_metrics.get(f"{getattr(model, 'map_metric', None)}.condition")
    return metric is None or "SparkDFExecutionEngine" in metric["providers"] or hasattr(model, "_validate_spark")


def _of_kwargs(at: Path_, each: dict[str, Any]) -> Iterator[Finding]:
    name, kwargs = each.get("type"), each.get("kwargs", {})
    if name in OWN and isinstance(kwargs, dict):
        yield from _own(at, OWN[name], kwargs)
        return
    if name not in known_types() or not isinstance(kwargs, dict):
        return
    model = _registry().get_expectation_impl(name)
    fields = tuple(field for field in model.__fields__ if field not in _NOT_KWARGS | _BESIDE)
    for key in kwargs:
        if key in _BESIDE:
            yield Finding((*at, "kwargs", key), f"{key} belongs beside kwargs, not in it", key, key=True)
        elif key not in fields:
            close = nearest(key, fields)
            yield Finding((*at, "kwargs", key), f"{name} takes no {key!r}", key, fields, close, key=True)
    known = {key: value for key, value in kwargs.items() if key in fields}
    yield from _refused(at, model, known)
    low, high = known.get("min_value"), known.get("max_value")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield Finding(
            (*at, "kwargs", "min_value"), f"min_value is more than max_value ({high}): no value can pass", low
        )
    yield from text_findings(at, known)


def _refused(at: Path_, model: Any, kwargs: dict[str, Any]) -> Iterator[Finding]:
    """Errors of GX's own model; of several errors about one argument the first is kept."""
    from pydantic.v1 import ValidationError

    try:
        with redirect_stdout(sys.stderr):  # some of GX's validators print, and stdout is reserved for JSON
            model(**kwargs)
        return
    except ValidationError as error:
        details = error.errors()
    except Exception as error:  # noqa: BLE001 - GX's validators raise any type; each is a problem of the file
        yield Finding((*at, "kwargs"), f"Great Expectations refuses this: {str(error).strip().splitlines()[0]}")
        return
    reported: set[str] = set()
    for each in details:
        key = str(each["loc"][0])
        if key in reported:
            continue
        reported.add(key)
        if each["type"] == "value_error.missing":
            yield Finding((*at, "kwargs", key), f"{key} is missing")
        elif key == "__root__":
            yield Finding((*at, "kwargs"), str(each["msg"]))
        else:
            yield Finding((*at, "kwargs", key), str(each["msg"]), kwargs.get(key))


def _own(at: Path_, model: type[SpecModel], kwargs: dict[str, Any]) -> Iterator[Finding]:
    try:
        model.model_validate(kwargs)
    except PydanticError as error:
        for finding in findings(error, model, kwargs):
            yield replace(finding, path=(*at, "kwargs", *finding.path))


def _of_effect(at: Path_, each: dict[str, Any], obstacle: str) -> Iterator[Finding]:
    """Whether `on_fail: quarantine` is possible: a table whose rows cannot be quarantined would be held for ever."""
    name, kwargs = each.get("type"), each.get("kwargs", {})
    if each.get("on_fail") != "quarantine" or not isinstance(name, str) or not isinstance(kwargs, dict):
        return
    why = one_by_one(name, kwargs) if name in known_types() or name in OWN else ""
    if not why and each.get("scope", "increment") != "increment":
        why = "it reads verified rows too: the policy moves new rows only (scope: increment)"
    if why or obstacle:
        yield Finding((*at, "on_fail"), f"its failing rows cannot go to quarantine: {why or obstacle}",
                      "quarantine", ("record", "warn", "hold"))  # fmt: skip


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(str(value)) if value is not None else None
    except ValueError:
        return None


_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""Fields of `str.format`, with which Great Expectations inserts the rows."""
_ROWS = "_batch_"  # as long as {batch}, so that places remain correct


def text_findings(at: Path_, kwargs: dict[str, Any]) -> Iterator[Finding]:
    """Problems of the query and the patterns among the arguments `kwargs` of the expectation at `at`."""
    query = kwargs.get("unexpected_rows_query")
    if isinstance(query, str):
        yield from _of_query((*at, "kwargs", "unexpected_rows_query"), query)
    if isinstance(one := kwargs.get("regex"), str) and (why := no_pattern(one)):
        yield Finding((*at, "kwargs", "regex"), why, one)
    listed = kwargs.get("regex_list")
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(each, str) and (why := no_pattern(each)):
            yield Finding((*at, "kwargs", "regex_list", index), why, each)


def _of_query(path: Path_, query: str) -> Iterator[Finding]:
    if "{batch}" not in query:
        message = "the query does not read {batch}: it would read other rows than the run"
        yield Finding(path, message, query)
    try:
        list(Formatter().parse(query))
    except ValueError:
        return  # an unbalanced brace: Great Expectations reports it
    fields = [found for found in _BRACES.finditer(query) if found[1] is not None and found[1] != "batch"]
    for found in fields:
        message = f"{found[0]} has no value: only {{batch}} has; write a brace of the SQL twice"
        yield Finding(path, message, found[0], at=_place(query, found.start()))
    if fields:
        return
    try:
        parse_select(_BRACES.sub(_filled, query), "a query for unexpected rows")
    except SqlProblem as error:
        yield Finding(path, str(error), query, at=(error.line, error.column))


def _filled(found: re.Match[str]) -> str:
    return _ROWS if found[1] is not None else f" {found[0][0]}"


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
