from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.spec.sql.statements import (
    SqlProblem,
    parse,
    parse_expression,
    parse_select,
    quote,
    quote_table,
    quote_text,
)


def test_quoting():
    assert quote("a`b") == "`a``b`"
    assert quote_table("nyc.flights", "lake") == "`lake`.`nyc`.`flights`"
    assert quote_text("it's \\") == "'it\\'s \\\\'"
    for wrong in ("", "a\x00b"):
        with pytest.raises(ValueError, match="not an identifier"):
            quote(wrong)


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text))
def test_a_quoted_name_cannot_end_its_quotes(name):
    inside = quote(name)[1:-1]
    assert inside.replace("``", "").count("`") == 0


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("SELECT a b c FROM x", 1, 12, "unexpected 'c'"),
        ("SELECT a,\n  b\nFROM x WHERE (b", 3, 15, "before 'b'"),
        ("SELECT 'a", None, None, "never closed"),
        ("", None, None, "no statement"),
        ("SELECT 1; DROP TABLE x", None, None, "more than one"),
        ("-- only a comment", None, None, "no statement"),
        ("DROP TABLE x", 1, 1, "DROP"),
        ("INSERT INTO a SELECT 1", 1, 1, "INSERT"),
        ("SHOW TABLES", 1, 1, "SHOW"),
    ],
)
def test_what_is_no_select_says_where_and_why(text, line, column, words):
    with pytest.raises(SqlProblem) as caught:
        parse_select(text)
    assert words in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["SELECT 1;", "SELECT 1;\n-- end\n", "SELECT 1; -- c\n;", "/* a */ SELECT 1 /* b */"])
def test_a_comment_is_no_statement(text):
    assert parse_select(text)


def test_sparks_window_function_groups():
    statement = parse_select("SELECT window.start, count(*) FROM s GROUP BY window(t, '1 hour'), origin")
    assert len(statement.args["group"].expressions) == 2
    assert parse("SELECT sum(a) OVER w FROM s WINDOW w AS (PARTITION BY b)")


@pytest.mark.parametrize("text", ["a BETWEEN 1 AND 2", "op = 'd'", "a IS NULL -- note", "count_if(x > 1) > 2", "(a)"])
def test_expressions(text):
    assert parse_expression(text)


@pytest.mark.parametrize("text", ["a BETWEEN", "a, b", "SELECT 1", "1) FROM x WHERE (1", ")(", "", "a; b", "1 AS x"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(SqlProblem):
        parse_expression(text)


def test_the_place_inside_an_expression_does_not_count_the_wrapping():
    with pytest.raises(SqlProblem) as caught:
        parse_expression("a b c")
    assert (caught.value.line, caught.value.column) == (1, 5)


@given(st.text())
def test_no_text_makes_the_parsers_fail_otherwise(text):
    for reader in (parse_select, parse_expression):
        try:
            reader(text)
        except SqlProblem:
            continue
