"""The arguments of one expectation against the columns of its table: what is wrong, and what to compute with. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from lakeward.quality.arguments import json_schemas, patterns, types
from lakeward.quality.arguments.columns import Columns, Resolved, Unresolved
from lakeward.quality.arguments.conditions import comparison_faults, condition_faults
from lakeward.quality.arguments.faults import Fault
from lakeward.quality.arguments.literals import Unfit, literal
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.read.document import Path_
from lakeward.spec.sql.statements import SqlProblem, parse_select

_IN_SETS = frozenset(
    f"expect_column_{each}"
    for each in ("values_to_be_in_set", "values_to_not_be_in_set", "distinct_values_to_be_in_set")
)
"""Sets in which a null has no effect, because rows without a value are not judged."""
_OF_SETS = frozenset(
    f"expect_column_{each}"
    for each in ("distinct_values_to_contain_set", "distinct_values_to_equal_set", "most_common_value_to_be_in_set")
)
"""Sets whose members are looked for among the values, where a null is never found."""
_BETWEEN = "expect_column_values_to_be_between"
_BOUNDED = frozenset((_BETWEEN, "expect_column_min_to_be_between", "expect_column_max_to_be_between"))
_QUANTILES = "expect_column_quantile_values_to_be_between"
_SUM = "expect_multicolumn_sum_to_equal"
_PAIRS = "expect_column_pair_values_to_be_in_set"
_SCHEMA = frozenset(
    ("expect_column_to_exist", "expect_table_columns_to_match_set", "expect_table_columns_to_match_ordered_list")
)
"""About the columns themselves: one that is missing is a failure, not a wrong argument."""
_NULL = "null is no member of a set: a comparison with it is neither true nor false; rows without a value are judged by"
_NOT_NULL = "expect_column_values_to_not_be_null"


_EVERY = "is no bound: every number lies within it; leave it out"
_INFINITE = re.compile(r"\s*[-+]?\.?inf(?:inity)?\s*", re.IGNORECASE)
_TEXTS = ("STRING", "BINARY")
_NO_BOUND = (
    "bounds of Great Expectations are numbers, days or times; for other text write a set, a pattern, or a query "
    "(unexpected_rows_expectation)"
)


@dataclass
class Settled:
    """The outcome for one expectation.

    Attributes:
        kwargs: the arguments to compute with: names as the table has them, literals of the columns' types, no nulls.
        exact: of these, the ones that Great Expectations' model would round or change.
        faults: what is wrong; with one of them nothing may be computed.
        warnings: what has no effect.
    """

    kwargs: dict[str, Any]
    exact: dict[str, Any] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)


def settle(kind: str, kwargs: Mapping[str, Any], columns: Columns | None) -> Settled:
    """Settle the arguments of one expectation.

    Args:
        kind: its name in Great Expectations, or one of Lakeward's own.
        kwargs: as the suite has them.
        columns: of the table; None if they are not known, so that only what is wrong for every table is found.
    """
    made = Settled(dict(kwargs))
    made.faults += _parameters((), kwargs)
    if made.faults:
        return made
    if kind in OWN:
        made.faults += _own(kwargs, columns)
        return made
    names = _names(kind, made, columns)
    column = names.get("column")
    made.faults += [*types.faults(kind, names), *patterns.posix_faults(kwargs)]
    if kind == json_schemas.KIND and isinstance(schema := kwargs.get("json_schema"), dict):
        made.faults += json_schemas.faults(schema)
    if made.faults:
        return made
    if kind in _IN_SETS | _OF_SETS:
        _set(kind, made, column)
    elif kind in _BOUNDED:
        _bounds(kind, made, column)
    elif kind == _QUANTILES:
        _quantiles(made, column)
    elif column is not None:
        made.faults += _infinite(kwargs)
    elif kind == _PAIRS:
        _pairs(made, names.get("column_A"), names.get("column_B"))
    elif isinstance(query := kwargs.get("unexpected_rows_query"), str):
        made.faults += _query(query, columns)
    made.faults += condition_faults(made.kwargs, columns)
    return made


def _parameters(path: Path_, value: Any) -> Iterator[Fault]:
    """Arguments that Great Expectations would fill in when a suite of its own runs."""
    if isinstance(value, Mapping) and "$PARAMETER" in value:
        yield Fault(path, "a $PARAMETER has no value here: write the value", str(value["$PARAMETER"]))
        return
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if isinstance(each, Mapping | list):
            yield from _parameters((*path, key), each)


def _names(kind: str, made: Settled, columns: Columns | None) -> dict[str, Resolved]:
    """Replace every name of a column by the table's own; what each argument names."""
    found: dict[str, Resolved] = {}
    if columns is None:
        return found

    def one(path: Path_, written: Any) -> Any:
        if not isinstance(written, str):
            return written  # Great Expectations refuses it
        try:
            resolved = columns.resolve(written)
        except Unresolved as error:
            if kind not in _SCHEMA:
                made.faults.append(Fault(path, str(error), written, tuple(columns.top), error.near))
            return written
        found[str(path[0])] = resolved
        if kind == _SUM and "." in resolved.spelled:
            message = f"{kind} cannot read the name {resolved.plain!r}, which has a dot: write it as a query"
            made.faults.append(Fault(path, message, written))
        # The lists that Great Expectations compares names with quote those with a dot only.
        return "*" if kind in _SCHEMA and resolved.plain == "*" else resolved.spelled

    for key in ("column", "column_A", "column_B"):
        if key in made.kwargs:
            made.kwargs[key] = one((key,), made.kwargs[key])
    for key in ("column_list", "column_set"):
        if isinstance(listed := made.kwargs.get(key), list):
            made.kwargs[key] = [one((key, index), each) for index, each in enumerate(listed)]
    return found


def _set(kind: str, made: Settled, column: Resolved | None) -> None:
    listed = made.kwargs.get("value_set")
    if isinstance(listed, Mapping):
        made.faults.append(Fault(("value_set",), "a mapping is no set: write a list", listed))
    if not isinstance(listed, list):
        return
    values = []
    for index, each in enumerate(listed):
        path = ("value_set", index)
        if each is None and kind in _OF_SETS:
            made.faults.append(Fault(path, f"{_NULL} {_NOT_NULL}"))
        elif each is None:
            made.warnings.append(
                Fault(path, f"null has no effect here: rows without a value are judged by {_NOT_NULL} only")
            )
        else:
            values.append(_fit(made, path, each, column))
    made.kwargs["value_set"] = made.exact["value_set"] = values


def _bounds(kind: str, made: Settled, column: Resolved | None) -> None:
    for key in ("min_value", "max_value"):
        value = made.kwargs.get(key)
        if isinstance(value, Mapping):
            made.faults.append(Fault((key,), "a mapping is no bound: write a value", value))
            continue
        if value is None or column is None:
            continue
        if (
            isinstance(value, str)
            and column.kind in _TEXTS
            and not re.search(r"[0-9]|^ *[-+]?\.?(?:inf|nan)", value, re.I)
        ):
            made.faults.append(Fault((key,), _NO_BOUND, value))
            continue
        fit = _fit(made, (key,), value, column, bound=True)
        if kind == _BETWEEN or (isinstance(value, int | float) and not isinstance(value, bool)):
            made.exact[key] = fit
    low, high = made.exact.get("min_value"), made.exact.get("max_value")
    if low is None or high is None or made.faults:
        return
    try:
        over = bool(low > high)
    except TypeError:
        message = f"min_value ({low}) and max_value ({high}) are a day and a time: write both as days, or both as times"
        made.faults.append(Fault(("min_value",), message, low))
        return
    if over:
        made.faults.append(Fault(("min_value",), f"min_value is more than max_value ({high}): no value can pass", low))


def _infinite(kwargs: Mapping[str, Any]) -> Iterator[Fault]:
    """Bounds of a statistic that are infinite: Great Expectations takes none, and says so without the word."""
    for key in ("min_value", "max_value"):
        if _INFINITE.fullmatch(str(kwargs.get(key))):
            yield Fault((key,), f"{kwargs[key]} {_EVERY}", kwargs[key])


def _quantiles(made: Settled, column: Resolved | None) -> None:
    ranges = made.kwargs.get("quantile_ranges")
    quantiles = ranges.get("quantiles") if isinstance(ranges, dict) else None
    for index, each in enumerate(quantiles if isinstance(quantiles, list) else ()):
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= 1:
            words = "a quantile is a number from 0 to 1 (valid: 0.95)"
            made.faults.append(Fault(("quantile_ranges", "quantiles", index), words, each))
    listed = ranges.get("value_ranges") if isinstance(ranges, dict) else None
    for index, pair in enumerate(listed if isinstance(listed, list) else ()):
        for end, value in enumerate(pair if isinstance(pair, list) else ()):
            if value is not None:
                _fit(made, ("quantile_ranges", "value_ranges", index, end), value, column, bound=True)


def _pairs(made: Settled, first: Resolved | None, second: Resolved | None) -> None:
    listed = made.kwargs.get("value_pairs_set")
    if not isinstance(listed, list):
        return
    pairs = []
    for index, pair in enumerate(listed):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return  # Great Expectations refuses it
        for place, each in enumerate(pair):
            if each is None:
                made.faults.append(Fault(("value_pairs_set", index, place), f"{_NULL} {_NOT_NULL}"))
        fit = [
            each if each is None else _fit(made, ("value_pairs_set", index, place), each, (first, second)[place])
            for place, each in enumerate(pair)
        ]
        pairs.append(fit)
    made.kwargs["value_pairs_set"] = made.exact["value_pairs_set"] = pairs


def _fit(made: Settled, path: Path_, value: Any, column: Resolved | None, *, bound: bool = False) -> Any:
    """The literal as a value of the column's type; as it is, with a fault, if it is none."""
    if column is None:
        return value
    try:
        fit = literal(value, column.kind, bound=bound)
        # A FLOAT has no value beyond its range either, but the number is one.
        if bound and isinstance(fit, float) and math.isinf(fit) and math.isinf(float(str(value).lstrip(" +-."))):
            raise Unfit(f"{value} {_EVERY}")
        return fit
    except Unfit as error:
        made.faults.append(Fault(path, f"column {column.plain} is {column.kind}: {error}", value))
        return value


def _query(query: str, columns: Columns | None) -> Iterator[Fault]:
    """Comparisons of a query with null, and of the table's columns with texts that are no values of theirs."""
    path = ("unexpected_rows_query",)
    try:
        parsed = parse_select(query.replace("{batch}", "_batch_").replace("{{", "{").replace("}}", "}"), "a query")
    except SqlProblem:
        return  # lint reports it, and Spark
    alone = {each.name for each in parsed.find_all(exp.Table)} == {"_batch_"} and not parsed.find(exp.Subquery, exp.CTE)
    yield from comparison_faults(path, parsed, columns if alone else None, query)


def _own(kwargs: Mapping[str, Any], columns: Columns | None) -> Iterator[Fault]:
    """The columns that one of Lakeward's own checks names."""
    several = kwargs.get("columns")
    listed = several if isinstance(several, list | tuple) else ()
    by = kwargs.get("by")
    named: list[tuple[Path_, Any]] = [(("column",), kwargs.get("column"))]
    named += [
        (("columns", index), each) for index, each in enumerate(listed if isinstance(listed, list | tuple) else ())
    ]
    named += [(("by", str(each)), each) for each in (by if isinstance(by, Mapping) else ())]
    for path, each in named:
        if columns is None or not isinstance(each, str):
            continue
        try:
            columns.resolve(each)
        except Unresolved as error:
            yield Fault(path, str(error), each, tuple(columns.top), error.near)
