"""Conditions of a suite on rows: read as a whole or refused, with columns that exist and literals of their types."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sqlglot import exp

from lakeward.quality.arguments.columns import Columns, Unresolved
from lakeward.quality.arguments.faults import Fault
from lakeward.quality.arguments.literals import Unfit, literal
from lakeward.spec.checks.columns import SPARK_WORDS, not_of_one_row
from lakeward.spec.read.document import Path_
from lakeward.spec.sql.statements import SqlProblem, parse_expression

_AT: Path_ = ("row_condition",)
_UNITS = frozenset(
    f"{unit}{end}" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond",
                                "microsecond", "dayofyear") for end in ("", "s")
)  # fmt: skip
"""Words in `timestampadd(HOUR, ..)`, which sqlglot may read as columns."""
_OF_GX = ("great_expectations", "great_expectations__experimental__")
_COLUMN = re.compile(r"\s*col\(\s*\"")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_VARIES = re.compile(
    r"(?<![\w.`])(?:rand|randn|random|uniform|uuid|shuffle|monotonically_increasing_id|java_method|reflect)\s*\(", re.I
)
"""Functions of Spark that it refuses in an aggregate, which every check is."""
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_SEVERAL = "write the whole condition as SQL: condition_parser: spark, row_condition: \"country = 'XX' AND id > 100\""
_NULL = "a comparison with null is true for no row; write IS NULL or IS NOT NULL"


def condition_faults(kwargs: dict[str, Any], columns: Columns | None) -> Iterator[Fault]:
    """What is wrong with `row_condition` and `condition_parser` of an expectation."""
    condition, parser = kwargs.get("row_condition"), kwargs.get("condition_parser")
    if condition is None:
        return
    if isinstance(condition, dict):
        yield from _structured(_AT, condition, columns)
    elif not isinstance(condition, str):
        return  # Great Expectations refuses it
    elif parser in _OF_GX:
        yield from _of_gx(condition, columns)
    elif parser == "pandas":
        yield Fault(
            ("condition_parser",), "a condition for pandas cannot be read by Spark", parser, ("spark", *_OF_GX[:1])
        )
    elif _COLUMN.match(condition):
        message = 'col("..") is the language of Great Expectations, and this is read as SQL; add condition_parser'
        yield Fault(_AT, message, condition, _OF_GX[:1])
    else:
        yield from sql_faults(_AT, condition, columns)


def _of_gx(text: str, columns: Columns | None) -> Iterator[Fault]:
    """The language of Great Expectations: one comparison. It reads the first one and ignores what follows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Great Expectations imports
        from great_expectations.expectations.legacy_row_conditions import condition

    found: Any = next(condition.scan_string(text), None)
    if found is None or text[: found[1]].strip():
        valid = 'col("id") > 100, col("id").notNull()'
        yield Fault(_AT, f"this is not a condition of Great Expectations (valid: {valid}); or {_SEVERAL}", text)
        return
    tokens, _, end = found
    if rest := text[end:].strip():
        read = text[:end].strip()
        message = f"Great Expectations reads only `{read}` of this and would ignore `{rest}`; {_SEVERAL}"
        yield Fault(_AT, message, text)
        return
    parsed = tokens.as_dict()
    value: Any = None
    if "condition_value" in parsed:
        value = parsed["condition_value"]
    elif "fnumber" in parsed:
        value = _number_of(str(parsed["fnumber"]))
    yield from _compared(_AT, str(parsed["column"]), value, columns, text)


def _number_of(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _structured(at: Path_, condition: dict[str, Any], columns: Columns | None) -> Iterator[Fault]:
    """A condition as a mapping: `type: comparison, nullity, and, or, pass_through`."""
    parts = condition.get("conditions")
    for index, each in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(each, dict):
            yield from _structured((*at, "conditions", index), each, columns)
    if isinstance(text := condition.get("pass_through_filter"), str):
        yield from sql_faults((*at, "pass_through_filter"), text, columns)
    column = condition.get("column")
    name = column.get("name") if isinstance(column, dict) else column
    if not isinstance(name, str):
        return
    value = condition.get("parameter")
    if condition.get("type") == "comparison" and value is None:
        yield Fault((*at, "parameter"), "a comparison with null is true for no row; write type: nullity, is_null: true")
        return
    for index, each in enumerate(value if isinstance(value, list) else [value]):
        path = (*at, "parameter", index) if isinstance(value, list) else (*at, "parameter")
        if each is None and isinstance(value, list):
            yield Fault(path, _NULL)
        else:
            yield from _compared(path, name, each, columns, each)


def _compared(at: Path_, name: str, value: Any, columns: Columns | None, shown: Any) -> Iterator[Fault]:
    if columns is None:
        return
    try:
        column = columns.resolve(name)
        if value is not None:
            literal(value, column.kind, bound=True)
    except Unresolved as error:
        yield Fault(at, str(error), shown, tuple(columns.top), error.near)
    except Unfit as error:
        yield Fault(at, f"column {column.plain} is {column.kind}: {error}", shown)


def sql_faults(at: Path_, text: str, columns: Columns | None) -> Iterator[Fault]:
    """What is wrong with a condition in Spark's SQL."""
    try:
        parsed = parse_expression(text)
    except SqlProblem as error:
        yield Fault(at, str(error), text, at=(error.line, error.column))
        return
    if not parsed.find(exp.Query) and (several := not_of_one_row(parsed)):
        yield Fault(at, f"a condition is about one row; {several} is not allowed", text)
        return
    varying = next((each.group() for each in _VARIES.finditer(_LITERAL.sub("''", text))), None)
    if varying is not None:
        called = varying.rstrip("( ").lower()
        yield Fault(at, f"{called}() gives another value each time it is computed: no row is judged twice alike", text)
        return
    yield from comparison_faults(at, parsed, columns, text)
    alone = parsed.unnest()
    if columns is not None and isinstance(alone, exp.Column):
        with suppress(Unresolved):
            known = columns.resolve(_name(alone))
            if known.kind != "BOOLEAN":
                yield Fault(at, f"a condition is true or false; column {known.plain} is {known.kind}", text)
    if columns is None or parsed.find(exp.Query, exp.Lambda):
        return
    for column in parsed.find_all(exp.Column):
        first = column.parts[0].name.lower()
        try:
            columns.resolve(_name(column))
        except Unresolved as error:
            if first not in {each.lower() for each in columns.top} | SPARK_WORDS | _UNITS:  # else: inside of a column
                yield Fault(at, str(error), text, tuple(columns.top), error.near)


def comparison_faults(at: Path_, parsed: exp.Expr, columns: Columns | None, text: str) -> Iterator[Fault]:
    """Comparisons that are true for no row, or that compare a column with a text its type cannot have."""
    for node in parsed.find_all(exp.In, exp.Between, *_COMPARISONS):
        sides = _sides(node)
        if any(isinstance(each, exp.Null) for each in sides):
            yield Fault(at, f"`{node.sql('spark')}`: {_NULL}", text)
        column = next((each for each in sides if isinstance(each, exp.Column)), None)
        if column is None or columns is None:
            continue
        try:
            known = columns.resolve(_name(column))
        except Unresolved:
            continue
        for each in sides:
            if not isinstance(each, exp.Literal) or not each.is_string:
                continue  # Spark casts a text that it can cast
            try:
                if not known.kind.startswith(("ARRAY", "MAP", "STRUCT")):
                    literal(each.this, known.kind, bound=True)
            except Unfit as error:
                yield Fault(at, f"`{node.sql('spark')}`: column {known.plain} is {known.kind}: {error}", text)


def _sides(node: exp.Expr) -> list[Any]:
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args.get("low"), node.args.get("high")]
    return [node.this, node.expression]


def _name(column: exp.Column) -> str:
    return ".".join(part.name for part in column.parts)
