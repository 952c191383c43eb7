"""What sqlglot reads and Spark does not know is refused where it stands."""

from __future__ import annotations

import re

import pytest

from lakeward.spec.sql.statements import SqlProblem, parse_expression, parse_select


@pytest.mark.parametrize(
    ("sql", "column", "words"),
    [
        ("SELECT ? FROM s", 8, "placeholders (?, :x, ${x}, {{ x }}) are not supported"),
        ("SELECT a FROM s WHERE b = :x", 27, "placeholders (?, :x, ${x}, {{ x }}) are not supported"),
        ("SELECT ${x} FROM s", 8, "placeholders (?, :x, ${x}, {{ x }}) are not supported"),
        ("SELECT {{ x }} FROM s", 8, "placeholders (?, :x, ${x}, {{ x }}) are not supported"),
        ("SELECT a, FROM s", 9, "a trailing comma, before 'FROM'"),
        ("SELECT f(a,) FROM s", 11, "a trailing comma"),
        ("SELECT a,", 9, "at the end"),
        ("SELECT FROM s", None, "a SELECT without columns"),
        ("FROM s", 1, "write SELECT * FROM"),
        ("SELECT * EXCLUDE (a) FROM s", 10, "write SELECT * EXCEPT"),
        ("SELECT * REPLACE (1 AS a) FROM s", 10, "no SELECT * REPLACE"),
        ("SELECT a FROM s QUALIFY row_number() OVER (ORDER BY b) = 1", 17, "no QUALIFY"),
    ],
)
def test_a_select_spark_cannot_read(sql, column, words):
    with pytest.raises(SqlProblem, match=re.escape(words)) as caught:
        parse_select(sql)
    assert caught.value.column == column


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * EXCEPT (a), a * 2 AS exclude FROM s",
        "SELECT a*replace(b, 'x') FROM s",
        "SELECT '?, ${x}, {{ x }}, :x,' FROM s",
        "SELECT CAST(a AS STRUCT<x: INT>) FROM s",
    ],
)
def test_a_select_spark_can_read(sql):
    assert parse_select(sql)


@pytest.mark.parametrize("text", ["a > ?", "a > :x", "{{ ds }}", "f(a,)"])
def test_expressions_too(text):
    with pytest.raises(SqlProblem, match=r"placeholders .* are not supported|a trailing comma"):
        parse_expression(text)
