"""What Spark cannot do to rows that never end is refused before a query is started."""

from __future__ import annotations

import pytest

from lakeward.spec.analysis import analyse
from lakeward.spec.streaming_sql import obstacles


def found(sql: str, mode: str = "append", column: str | None = "t") -> str:
    return "; ".join(obstacles(analyse(sql), {"s": column}, mode))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM s LIMIT 3", "nothing lands any more"),
        ("SELECT * FROM s LIMIT 3 OFFSET 2", "OFFSET"),
        ("WITH w AS (SELECT * FROM s) SELECT * FROM w LIMIT 1", "LIMIT"),
        ("SELECT * FROM s ORDER BY a", "ORDER BY needs all rows"),
        ("SELECT * FROM s UNION ALL SELECT * FROM s ORDER BY 1", "ORDER BY needs all rows"),
        ("SELECT * FROM (SELECT * FROM s SORT BY a)", "SORT BY needs all rows"),
        ("SELECT * FROM s CLUSTER BY a", "CLUSTER BY sorts"),
        ("SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM s", "row_number() OVER"),
        ("SELECT sum(a) OVER w FROM s WINDOW w AS (PARTITION BY b)", "sum() OVER"),
        ("SELECT o, count(*) FROM s GROUP BY o", "add window(t, '1 hour') to GROUP BY"),
        ("SELECT date_trunc('hour', t) AS h, count(*) FROM s GROUP BY h", "no group is ever done"),
        ("SELECT count(*) FROM s GROUP BY window(x, '1 hour')", "no group is ever done"),
        ("SELECT o, t, count(*) FROM s GROUP BY 1", "no group is ever done"),
        ("SELECT max(a) FROM s", "no group is ever done"),
        (f"SELECT t, count(*) FROM s GROUP BY {'9' * 30}", "no group is ever done"),
    ],
)
def test_it_is_refused_with_its_remedy(sql, words):
    assert words in found(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM s",
        "SELECT s.*, x.n FROM s JOIN (SELECT b, rank() OVER (ORDER BY b) AS n FROM r ORDER BY b LIMIT 3) x ON true",
        "SELECT s.*, (SELECT max(x) FROM r) FROM s",
        "SELECT window.start AS hour, o, count(*) FROM s GROUP BY window(t, '1 hour'), o",
        "SELECT window(t, '1 hour').start AS hour, count(*) FROM s GROUP BY window(t, '1 hour')",
        "SELECT window(t, '1 hour') AS w, count(*) FROM s GROUP BY w",
        "WITH w AS (SELECT *, window(t, '1 hour') AS win FROM s) SELECT win, count(*) FROM w GROUP BY win",
        "SELECT count(*) FROM s GROUP BY session_window(s.t, '5 minutes')",
        "SELECT T, count(*) FROM s GROUP BY 1",
        "SELECT o, t, count(*) FROM s GROUP BY ALL",
        "SELECT a, count(*) FROM s GROUP BY CUBE(a, t)",
        "SELECT array_agg(a ORDER BY b) FROM s GROUP BY t",
        "WITH w AS (SELECT * FROM w) SELECT * FROM w",
    ],
)
def test_what_spark_can_do_is_not(sql):
    assert found(sql) == ""


def test_a_sink_that_rewrites_all_rows_may_sort_and_group_them():
    assert found("SELECT o, count(*) AS n FROM s GROUP BY o ORDER BY n LIMIT 3", "complete") == ""
