"""Which tables a SELECT reads, whatever a WITH calls them."""

from __future__ import annotations

import pytest

from lakeward.spec.sql.analysis import analyse, joins_streams
from lakeward.spec.sql.table_names import Reading


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("WITH s AS (SELECT * FROM s WHERE a > 1) SELECT * FROM s", ["s"]),
        ("WITH S AS (SELECT * FROM s), w AS (SELECT * FROM S) SELECT * FROM w", ["s"]),
        ("WITH s AS (SELECT 1 AS a) SELECT * FROM s", []),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", ["b"]),
        ("WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s) SELECT * FROM s", []),
        ("WITH s AS (WITH s AS (SELECT * FROM s) SELECT * FROM s) SELECT * FROM (SELECT * FROM s)", ["s"]),
        ("SELECT * FROM (WITH w AS (SELECT 1) SELECT * FROM w) x JOIN w ON true", ["w"]),
        ("WITH s AS (SELECT 1 AS a) SELECT * FROM n.s", ["n.s"]),
    ],
)
def test_an_entry_of_a_with_does_not_see_itself(sql, names):
    assert [read.name for read in analyse(sql).reads] == names


def test_a_name_in_backquotes_begins_at_the_first_of_them():
    (read,) = analyse("SELECT *\nFROM `s`").reads
    assert (read.name, read.line, read.column) == ("s", 2, 6)


@pytest.mark.parametrize(
    ("sql", "times"),
    [
        ("SELECT * FROM r", 0),
        ("SELECT * FROM n.s", 0),
        ("WITH s AS (SELECT * FROM s) SELECT * FROM s", 1),
        ("WITH s AS (SELECT * FROM r) SELECT * FROM s", 0),
        ("WITH w AS (SELECT * FROM s) SELECT * FROM w UNION ALL SELECT * FROM w", 2),
    ],
)
def test_how_often_a_table_is_read(sql, times):
    assert Reading(["S"]).times(analyse(sql).statement) == times


@pytest.mark.parametrize(
    ("sql", "joined"),
    [
        ("SELECT * FROM x JOIN y ON true", True),
        ("SELECT * FROM x JOIN r ON true JOIN y ON true", True),
        ("SELECT * FROM r JOIN (x JOIN y ON true) ON true", True),
        ("WITH w AS (SELECT * FROM x) SELECT * FROM w JOIN w AS v ON true", True),
        ("SELECT * FROM x JOIN r ON true UNION ALL SELECT * FROM y", False),
        ("SELECT * FROM (SELECT * FROM x) a JOIN r ON true", False),
    ],
)
def test_streams_are_joined_where_both_sides_read_one(sql, joined):
    assert joins_streams(analyse(sql), ["x", "y"]) is joined
