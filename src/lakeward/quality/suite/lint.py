"""Lint of suites against Great Expectations' models and the columns of their tables: no Spark, no data, all problems in
one pass, each with its place.

Imports Great Expectations (seconds of CPU): for the command line only, never for a Dag file or a loop.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

from pydantic import ValidationError as PydanticError

from lakeward.platform.runtime import Project
from lakeward.quality.arguments import patterns, types
from lakeward.quality.arguments.columns import Columns
from lakeward.quality.arguments.expectation import settle
from lakeward.quality.engine.failing_rows import one_by_one
from lakeward.quality.suite import known_columns
from lakeward.spec.checks import quarantine
from lakeward.spec.checks.reference_files import exists
from lakeward.spec.model.base import SpecModel
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.table_names import TableName
from lakeward.spec.read.document import Document, Path_
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


def _unknown(table: str) -> Columns | None:
    return None


def lint(project: Project, columns_of: Callable[[str], Columns | None] = _unknown) -> list[Problem]:
    """Every problem of the project's suites: in their form, and in their expectations.

    Args:
        columns_of: table -> its columns in the lake, if they can be read; otherwise a stream's spec may show them.
    """
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
        suites = sorted(project.expectations.glob("[!.]*.yaml"))  # files that begin with a dot belong to editors
        refused = _refused_patterns(suites)
        for file in suites:
            known_of = partial(_columns_of, columns_of=columns_of, specs=loaded.specs)
            lint_file(files, file, obstacle_of=obstacle_of, columns_of=known_of, refused=refused)
    found = {**dict.fromkeys(formal), **dict.fromkeys(files.problems)}  # the loader reports YAML errors too
    return sorted(found, key=lambda each: (each.file, each.line, each.column, each.path))


def _refused_patterns(suites: list[Path]) -> dict[str, str]:
    """Pattern -> why Java refuses it, for all suites by one Java process."""
    documents = (Files(file.parent).document(file) for file in suites)
    listed = (document.data.get("expectations") for document in documents if document is not None)
    kwargs = (
        each.get("kwargs") for some in listed if isinstance(some, list) for each in some if isinstance(each, dict)
    )
    found = {pattern for each in kwargs if isinstance(each, dict) for pattern in patterns.patterns_of(each).values()}
    return patterns.refused_by_java(found)


def _columns_of(table: str, columns_of: Callable[[str], Columns | None], specs: list[StreamSpec]) -> Columns | None:
    return columns_of(table) or known_columns.of_specs(table, specs)


def _is_table(name: str) -> bool:
    try:
        TableName(name)
    except ValueError:
        return False
    return True


def lint_file(
    files: Files,
    file: Path,
    today: date | None = None,
    obstacle_of: Callable[[str], str] = _nothing,
    columns_of: Callable[[str], Columns | None] = _unknown,
    refused: Mapping[str, str] | None = None,
) -> None:
    """Add the problems of one suite's expectations to `files`.

    Args:
        obstacle_of: table -> why its rows cannot be quarantined, as a clause.
        columns_of: table -> its columns, if they are known.
        refused: pattern -> why Java does not compile it; Java is asked if this is not given.
    """
    document = files.document(file)
    if document is None:
        return
    now = today or datetime.now(UTC).date()
    table = str(document.data.get("table"))
    listed, obstacle = document.data.get("expectations"), obstacle_of(table)
    columns = columns_of(table) if _is_table(table) else None  # the loader reports the name
    wrong = _refused_patterns([file]) if refused is None else refused
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(each, dict):
            continue  # the loader reports it
        at: Path_ = ("expectations", index)
        ours = [_as_written(finding, document) for finding in _of_arguments(at, each, columns)]
        paths = {finding.path for finding in ours if not finding.warning}
        theirs = [*_of_type(at, each), *_of_kwargs(at, each, wrong), *_of_effect(at, each, obstacle)]
        found = ours + [finding for finding in theirs if finding.path not in paths and not _follows(finding, at, paths)]
        for finding in found:
            files.found(file, document, finding)
        waived = _day(each.get("waive_until"))
        if waived is not None and waived < now:
            place = document.place((*at, "waive_until"))
            message = "this waiver has ended: failures count again; remove it or renew it"
            path = (*at, "waive_until")
            files.add(file, place.line, place.column, path, message, str(waived), warning=True)


def _follows(finding: Finding, at: Path_, paths: Collection[Path_]) -> bool:
    """Whether Great Expectations refuses the arguments as a whole, when one of them is refused already."""
    return finding.path == (*at, "kwargs") and any(path[: len(at) + 1] == finding.path for path in paths)


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


def _of_arguments(at: Path_, each: dict[str, Any], columns: Columns | None) -> Iterator[Finding]:
    """Names, literals, nulls and conditions, against the columns of the table."""
    name, kwargs = each.get("type"), each.get("kwargs", {})
    if not isinstance(name, str) or not isinstance(kwargs, dict) or (name not in OWN and name not in known_types()):
        return
    settled = settle(name, kwargs, columns)
    yield from (fault.finding(at) for fault in settled.faults)
    yield from (replace(fault.finding(at), warning=True) for fault in settled.warnings)


def _as_written(finding: Finding, document: Document) -> Finding:
    """The finding, with the digits of the file where YAML reads another number: `01234` is 1234."""
    if isinstance(finding.value, bool) or not isinstance(finding.value, int | float):
        return finding
    place = document.place(finding.path)
    line = document.text.splitlines()[place.line - 1 : place.line]
    written = re.match(r"[^\s,\]}#]+", line[0][place.column - 1 :]) if line else None
    if written is None or written[0] == str(finding.value):
        return finding
    return replace(finding, message=f"{finding.message}: '{written[0]}'")


def _of_kwargs(at: Path_, each: dict[str, Any], wrong: Mapping[str, str]) -> Iterator[Finding]:
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
    yield from (fault.finding(at) for fault in types.unknown(str(name), known))
    low, high = known.get("min_value"), known.get("max_value")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield Finding(
            (*at, "kwargs", "min_value"), f"min_value is more than max_value ({high}): no value can pass", low
        )
    yield from text_findings(at, known, wrong)


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
        elif key == "__root__" and len(details) > 1:
            continue  # "cannot both be None": one of them was refused
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


def text_findings(at: Path_, kwargs: dict[str, Any], wrong: Mapping[str, str]) -> Iterator[Finding]:
    """Problems of the query and the patterns among the arguments `kwargs` of the expectation at `at`.

    Args:
        wrong: pattern -> why Java does not compile it.
    """
    query = kwargs.get("unexpected_rows_query")
    if isinstance(query, str):
        yield from _of_query((*at, "kwargs", "unexpected_rows_query"), query)
    yield from (fault.finding(at) for fault in patterns.faults(kwargs, wrong))
    for path, each in patterns.patterns_of(kwargs).items():
        if each not in wrong and (why := patterns.slow(each)):
            yield Finding((*at, "kwargs", *path), why, each, warning=True)


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
