"""Columns with types are what Spark's own grammar takes for a table's schema: neither more nor less."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import SqlProblem


def test_names_and_types():
    columns = ddl_columns("year INT, d DECIMAL(10,2) NOT NULL, s STRUCT<a: INT, b: ARRAY<STRING>>, `odd name` STRING")
    assert columns == {
        "year": "INT", "d": "DECIMAL(10, 2)", "s": "STRUCT<a: INT, b: ARRAY<STRING>>", "odd name": "STRING",
    }  # fmt: skip
    assert ddl_columns("a long, `c``d` int") == {"a": "BIGINT", "c`d": "INT"}


@pytest.mark.parametrize(
    ("ddl", "column", "words"),
    [
        ("year INTT", 6, "INTT is not a type here; did you mean INT?"),
        ("a STRING b INT", 10, "a comma is missing before 'b'"),
        ("a", 2, "column a has no type; write: a STRING"),
        ("a, b INT", 2, "column a has no type"),
        ("a STRING, A INT", 11, "is listed twice"),
        ("", None, "columns with Spark types"),
        ("a STRING) x", 9, "unexpected ')'"),
        ("a INT;", 6, "unexpected ';'"),
        ("a INT,", 6, "a trailing comma"),
        ("a INT,, b INT", 6, "a trailing comma"),
        (", a INT", 1, "a comma without a column before it"),
        ("a STRUCT<x: INT,>", 16, "a trailing comma"),
        ("a.b INT", 2, "a name with '.' needs backquotes: `a.b`"),
        ("a-b INT", 2, "a name with '-' needs backquotes: `a-b`"),
        ("a: INT", 2, "remove the colon between column and type"),
        ("'a' INT", 1, "'a' is text"),
        ('"a" INT', 1, '"a" is text'),
        ("`` INT", 1, "'`' is not a valid column name"),
        ("12 INT", 1, "'12' is not a valid column name"),
        ("1L INT", 1, "'1L' is not a valid column name"),
        ("größe INT", 3, "ö is not a type here"),
        ("a TEXT", 3, "TEXT is not a type here; valid: BOOLEAN"),
        ("a INT64", 3, "INT64 is not a type here"),
        ("a CHAR(3)", 3, "CHAR is not a type here"),
        ("a UUID", 3, "UUID is not a type here"),
        ("a INTERVAL", 3, "INTERVAL is not a type here"),
        ("a VARIANT", 3, "VARIANT is not a type here"),
        ("a ARRAY<TEXT>", 9, "TEXT is not a type here"),
        ("a ARRAY<>", 9, "ARRAY<> is not a type here"),
        ("a ARRAY<INT", 3, "ARRAY is never closed with >"),
        ("a INT[]", 3, "ARRAY<type>"),
        ("a INT(3)", 3, "INT(3) is not a type here"),
        ("a DECIMAL(39, 2)", 3, "1 to 38 digits"),
        ("a DECIMAL(5, 9)", 3, "s of them at most p"),
        ("a DECIMAL(0)", 3, "1 to 38 digits"),
        ("a DECIMAL(5, -1)", 3, "DECIMAL(5, -1): DECIMAL(p, s) has"),
        ("a DECIMAL()", 3, "1 to 38 digits"),
        ("a ARRAY", 3, "ARRAY is not a type here"),
        ("a MAP<INT>", 3, "MAP<INT> is not a type here"),
        ("a STRUCT<INT>", 13, "fields of a STRUCT have names"),
        ("a STRUCT<>", 3, "fields of a STRUCT have names"),
        ("a INT DEFAULT 3", 7, "only NOT NULL and COMMENT may follow"),
        ("a INT GENERATED ALWAYS AS (b)", 7, "only NOT NULL and COMMENT may follow"),
        ("a STRING COLLATE UNICODE", 10, "only NOT NULL and COMMENT may follow"),
        ("a INT COMMENT 'x' NOT NULL", 19, "only NOT NULL and COMMENT may follow"),
        ("a INT NOT b INT", 11, "NULL is missing behind NOT"),
        ("a INT COMMENT b", 15, "a comment is text"),
        ("a " + "ARRAY<" * 2000, None, "nested too deeply"),
    ],
)
def test_what_spark_does_not_read_is_reported_with_its_place(ddl, column, words):
    with pytest.raises(SqlProblem, match=re.escape(words)) as caught:
        ddl_columns(ddl)
    assert caught.value.column == column


def test_the_place_is_on_its_line():
    with pytest.raises(SqlProblem) as caught:
        ddl_columns("a INT,\n  b INTT")
    assert (caught.value.line, caught.value.column) == (2, 5)


@pytest.mark.parametrize(
    "ddl",
    [
        "text STRING, date DATE, timestamp TIMESTAMP, comment STRING, array ARRAY<INT>",
        "unique STRING, like STRING, any STRING, case STRING, not STRING, null STRING, primary STRING, left STRING",
        "_a INT, 2nd STRING, `a.b` INT, `größe` INT",
        "a DECIMAL(38, 38), b DEC, c NUMERIC(3), d LONG, e REAL, f TIMESTAMP_NTZ",
        "a ARRAY<MAP<STRING, STRUCT<a: INT, text: DECIMAL(4,2), b ARRAY<INT>, `c d` INT NOT NULL COMMENT 'x'>>>",
        "a INT NOT NULL COMMENT 'TEXT, (x)', b INT COMMENT \"it's\"",
        "a INT -- one, two\n, b /* three */ INT",
    ],
)
def test_what_spark_reads(ddl):
    assert ddl_columns(ddl)


@given(st.text())
def test_no_text_makes_it_fail_otherwise(text):
    try:
        ddl_columns(text)
    except SqlProblem as problem:
        assert str(problem)
