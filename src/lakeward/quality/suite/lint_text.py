"""SQL and patterns in the arguments of a check: what no run could use, found without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter
from typing import Any

from lakeward.spec.model.java_regex import no_pattern
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.sql.statements import SqlProblem, parse_select

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""As `str.format` reads them, which is how Great Expectations fills in the rows."""
_ROWS = "_batch_"  # as long as {batch}: places stay right


def text_findings(at: Path_, kwargs: dict[str, Any]) -> Iterator[Finding]:
    """What is wrong with the query and the patterns among the arguments `kwargs` of the expectation at `at`."""
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
        message = "the query does not read {batch}: it would look at other rows than the run does"
        yield Finding(path, message, query)
    try:
        list(Formatter().parse(query))
    except ValueError:
        return  # a brace without its other half: Great Expectations says so
    fields = [found for found in _BRACES.finditer(query) if found[1] is not None and found[1] != "batch"]
    for found in fields:
        message = f"nothing fills in {found[0]}: only {{batch}} is; a brace of the SQL's own is written twice"
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
