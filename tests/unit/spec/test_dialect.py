"""What sqlglot reads and Spark does not know is refused where it stands."""

from __future__ import annotations

import re

import pytest

from lakeward.spec.sql import SqlProblem, ddl_columns, parse_expression, parse_select


@pytest.mark.parametrize(
    ("sql", "column", "words"),
    [
        ("SELECT ? FROM s", 8, "nothing fills in placeholders"),
        ("SELECT a FROM s WHERE b = :x", 27, "nothing fills in placeholders"),
        ("SELECT ${x} FROM s", 8, "nothing fills in placeholders"),
        ("SELECT {{ x }} FROM s", 8, "nothing fills in placeholders"),
        ("SELECT a, FROM s", 9, "a comma with nothing behind it, before 'FROM'"),
        ("SELECT f(a,) FROM s", 11, "a comma with nothing behind it"),
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
    with pytest.raises(SqlProblem, match="nothing"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("a TEXT", "TEXT is no type here; valid: BOOLEAN"),
        ("a INT64", "INT64 is no type here"),
        ("a CHAR(3)", "CHAR is no type here"),
        ("a UUID", "UUID is no type here"),
        ("a INTERVAL", "INTERVAL is no type here"),
        ("a VARIANT", "VARIANT is no type here"),
        ("a ARRAY<TEXT>", "TEXT is no type here"),
        ("a INT[]", "ARRAY<type>"),
        ("a INT(3)", "INT(3) is no type here"),
        ("a DECIMAL(39, 2)", "1 to 38 digits"),
        ("a DECIMAL(5, 9)", "s of them at most p"),
        ("a DECIMAL(0)", "1 to 38 digits"),
        ("a ARRAY", "ARRAY is no type here"),
        ("a MAP<INT>", "MAP<INT> is no type here"),
        ("a STRUCT<INT>", "fields of a STRUCT have names"),
        ("a INT DEFAULT 3", "only NOT NULL and COMMENT may follow"),
        ("a INT GENERATED ALWAYS AS (b)", "only NOT NULL and COMMENT may follow"),
    ],
)
def test_a_type_spark_or_the_table_does_not_have(ddl, words):
    with pytest.raises(SqlProblem, match=re.escape(words)):
        ddl_columns(ddl)


@pytest.mark.parametrize(
    "ddl",
    [
        "text STRING, date DATE, timestamp TIMESTAMP, comment STRING, array ARRAY<INT>",
        "a DECIMAL(38, 38), b DEC, c NUMERIC(3), d LONG, e REAL, f TIMESTAMP_NTZ",
        "a ARRAY<MAP<STRING, STRUCT<a: INT, text: DECIMAL(4,2), b ARRAY<INT>>>>",
        "a INT NOT NULL COMMENT 'TEXT, (x)'",
    ],
)
def test_types_of_spark(ddl):
    assert ddl_columns(ddl)
