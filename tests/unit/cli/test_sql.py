"""What `lakeward sql` lets through without --write."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakeward.cli.sql import _next, _reason, _value, check, refusal
from lakeward.platform.errors import DependencyDown, Refused, SpecError


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT 1 UNION ALL SELECT 2",
        "SHOW TABLES IN nyc",
        "DESCRIBE TABLE nyc.flights",
        "VALUES (1), (2)",
        "SELECT 1;",
        "SELECT 1; -- one",
    ],
)
def test_reading_passes(text):
    assert check(text, write=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM nyc.flights",
        "INSERT INTO nyc.flights SELECT 1",
        "MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN DELETE",
        "DROP TABLE nyc.flights",
        "CALL lake.system.expire_snapshots('nyc.flights')",
        "CREATE TABLE a.b AS SELECT 1",
        "ALTER TABLE a.b SET TBLPROPERTIES ('x' = 'y')",
        "SET spark.sql.x = 1",
        "ADD JAR '/x.jar'",
        "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a",
        "SELECT java_method('java.lang.System', 'exit', 1)",
        "SELECT reflect('java.lang.System', 'exit', 1)",
    ],
)
def test_everything_else_is_refused_unless_written_so(text):
    with pytest.raises(Refused):
        check(text, write=False)
    assert check(text, write=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- one",
        "SELECT 1; SELECT 2",
        "SELECT FROM WHERE (",
        "SELECT 1; DROP TABLE a.b",
        f"SELECT {'(' * 4000}1{')' * 4000}",
    ],
)
def test_anything_but_one_statement_is_refused(text):
    with pytest.raises(SpecError):
        check(text, write=False)


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `a` cannot be found. line 1 pos 14;\n'Project [*]\n"
         "+- 'UnresolvedRelation [a], [], false\n\nJVM stacktrace:\norg.apache", "lakeward tables health "),
        ("[DIVIDE_BY_ZERO] Division by zero.", "correct the statement"),
    ],
)  # fmt: skip
def test_what_spark_refuses_is_said_without_plan_and_trace(said, then):
    assert _next(Exception(said)).startswith(then)
    assert not re.search(r"Project|Unresolved|stacktrace", _reason(Exception(said)))


@pytest.mark.parametrize(
    ("said", "kind", "then"),
    [
        ("(org.apache.iceberg.jdbc.UncheckedSQLException) Failed to connect: jdbc:postgresql://127.0.0.1:1/catalog",
         DependencyDown, "lakeward stack status"),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'.", SpecError, "correct the statement"),
    ],
)  # fmt: skip
def test_a_part_that_is_away_is_not_taken_for_a_wrong_statement(said, kind, then):
    error = refusal(Exception(said))
    assert isinstance(error, kind)
    assert error.next.startswith(then)


def test_cells_become_json():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert _value(moment) is moment
    assert [_value(each) for each in (date(2026, 1, 1), Decimal("1.50"), b"\x01", [date(2026, 1, 1)], {1: None})] == [
        "2026-01-01", "1.50", "01", ["2026-01-01"], {"1": None},
    ]  # fmt: skip
