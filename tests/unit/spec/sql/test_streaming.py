"""What Spark cannot do to rows that never end is refused before a query is started."""

from __future__ import annotations

import pytest

from lakeward.spec.sql.analysis import analyse
from lakeward.spec.sql.streaming import obstacles


def found(sql: str, mode: str = "append", column: str | None = "t") -> str:
    return "; ".join(each.why for each in obstacles(analyse(sql), {"s": column}, mode))


def of_joins(sql: str, *watermarks: str | None) -> str:
    """What is said of a SELECT over the streams x, y and the table r."""
    times = dict(zip(("x", "y"), watermarks or (None, None), strict=True))
    return "; ".join(each.why for each in obstacles(analyse(sql, times), times, "append"))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM s LIMIT 3", "nothing more lands"),
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
        "SELECT count(*) FROM s GROUP BY session_window(s.t, '5 minutes'), o",
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


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("SELECT *\nFROM s\nLIMIT 3", 3, 1),
        ("SELECT * FROM s LIMIT ALL", 1, 17),
        ("SELECT * FROM s OFFSET 2", 1, 17),
        ("SELECT s.*\nFROM s JOIN (SELECT b FROM r ORDER BY b LIMIT 1) x ON true\n  ORDER BY a", 3, 3),
        ("SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM s", 1, 24),
        ("SELECT a,\n count(*) OVER () AS n FROM s", 2, 11),
        ("SELECT o, count(*)\nFROM s GROUP BY o", 2, 8),
        ("SELECT s.* FROM r\nRIGHT JOIN s ON r.a = s.a\nFULL OUTER JOIN r AS q ON q.a = s.a", 3, 12),
    ],
)
def test_it_is_reported_at_its_keyword(sql, line, column):
    (obstacle,) = obstacles(analyse(sql, ["s"]), {"s": "t"}, "append")
    assert obstacle.at == (line, column)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT x.*, r.n FROM x RIGHT JOIN r ON r.a = x.a", "RIGHT JOIN returns rows of r that match nothing"),
        ("SELECT x.*, r.n FROM x FULL OUTER JOIN r ON r.a = x.a", "write FROM x LEFT JOIN r"),
        ("SELECT x.*, r.n FROM r LEFT JOIN x ON r.a = x.a", "write FROM x LEFT JOIN r"),
        ("SELECT x.*, q.n FROM r AS q LEFT OUTER JOIN x USING (a)", "write FROM x LEFT JOIN q"),
        ("SELECT r.* FROM r LEFT ANTI JOIN x ON r.a = x.a", "LEFT ANTI JOIN returns rows of r, and every batch"),
        ("SELECT r.* FROM r LEFT SEMI JOIN x ON r.a = x.a", "write FROM x LEFT SEMI JOIN r"),
        ("SELECT * FROM (SELECT * FROM x) s FULL JOIN r ON r.a = s.a", "write FROM s LEFT JOIN r"),
        ("WITH w AS (SELECT * FROM x) SELECT * FROM r NATURAL LEFT JOIN w", "write FROM w LEFT JOIN r"),
        ("SELECT * FROM x JOIN r AS q ON true RIGHT JOIN r ON r.a = x.a", "RIGHT JOIN returns rows of r"),
        ("SELECT * FROM r AS q LEFT JOIN (x JOIN r ON x.a = r.a) ON true", "LEFT JOIN returns rows of q"),
    ],
)
def test_a_join_that_keeps_a_tables_rows_gives_them_in_every_batch(sql, words):
    assert words in of_joins(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM x LEFT JOIN r ON r.a = x.a",
        "SELECT * FROM x JOIN r ON r.a = x.a",
        "SELECT * FROM r JOIN x ON r.a = x.a",
        "SELECT * FROM r RIGHT JOIN x ON r.a = x.a",
        "SELECT * FROM x LEFT ANTI JOIN r ON r.a = x.a",
        "SELECT * FROM x LEFT SEMI JOIN r ON r.a = x.a",
        "SELECT * FROM x CROSS JOIN r",
        "SELECT * FROM x LEFT JOIN (SELECT p.a FROM r p FULL JOIN r q ON p.a = q.a) w ON w.a = x.a",
        "SELECT * FROM x, LATERAL explode(x.list) t(item)",
        "SELECT * FROM x JOIN y ON x.a = y.a",
        "SELECT * FROM x UNION ALL SELECT * FROM y",
    ],
)
def test_a_join_from_the_stream_is_none_of_them(sql):
    assert of_joins(sql) == ""


@pytest.mark.parametrize("join", ["LEFT", "RIGHT", "FULL OUTER", "LEFT SEMI"])
def test_an_outer_join_of_two_streams_knows_when_no_match_will_come(join):
    sql = f"SELECT * FROM x {join} JOIN y ON x.a = y.a"
    bound = " AND y.t BETWEEN x.t AND x.t + INTERVAL 1 HOUR"
    assert "cannot know that no match will come" in of_joins(sql + bound)
    assert "cannot know that no match will come" in of_joins(sql, "t", "t")
    assert of_joins(sql + bound, "t", "t") == ""
    assert of_joins(f"SELECT * FROM x {join} JOIN y USING (t)", "t", "t") == ""
    assert of_joins(f"SELECT * FROM x NATURAL {join} JOIN y", "t", "t") == ""


def test_spark_has_no_anti_join_of_two_streams():
    sql = "SELECT * FROM x LEFT ANTI JOIN y ON x.a = y.a AND y.t > x.t"
    assert "Spark has no LEFT ANTI JOIN of two streams" in of_joins(sql, "t", "t")


SESSIONS = "SELECT k, session_window.end AS f, max(t) AS last FROM s GROUP BY session_window(t, '2 hours'), k"


@pytest.mark.parametrize(
    "sql",
    [
        f"{SESSIONS} HAVING session_window.end < now()",
        f"{SESSIONS} HAVING f < now()",
        f"SELECT * FROM ({SESSIONS}) WHERE f < now()",
        f"WITH w AS ({SESSIONS}) SELECT k FROM w WHERE hour(f) = 1",
        "SELECT w.start FROM (SELECT session_window(t, '2 hours') AS w FROM s) GROUP BY w HAVING w.end < now()",
    ],
)
def test_a_condition_on_a_sessions_bounds_would_make_sessions_that_never_were(sql):
    assert "wrong sessions" in found(sql)


@pytest.mark.parametrize(
    "sql",
    [
        SESSIONS,
        f"{SESSIONS} HAVING max(t) < now() AND k <> 'x'",
        f"SELECT * FROM ({SESSIONS}) WHERE last < now()",
        "SELECT k, session_window.end AS f FROM s WHERE f < 3 GROUP BY session_window(t, '2 hours'), k",
        "SELECT window.end AS f, count(*) FROM s GROUP BY window(t, '2 hours') HAVING window.end < now()",
    ],
)
def test_a_condition_on_an_aggregate_of_a_session_or_on_its_records_is_well(sql):
    assert "wrong sessions" not in found(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM s GROUP BY session_window(s.t, '5 minutes')",
        "SELECT session_window(t, '5 minutes') AS w, count(*) FROM s GROUP BY w",
        "SELECT session_window(t, '5 minutes') AS w, count(*) FROM s GROUP BY 1",
    ],
)
def test_a_session_needs_a_key_beside_it(sql):
    assert "no sessions over all rows together; add a key to GROUP BY" in found(sql)
    assert "no sessions over all rows together" in found(sql, "complete")


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_a_session_is_sent_when_it_is_over(mode):
    assert f"as mode {mode} asks; use mode: append" in found(SESSIONS, mode)
    assert "use mode: append" not in found(SESSIONS)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT f, count(*) FROM ({SESSIONS}) GROUP BY f",
        "SELECT s.*, x.n FROM s JOIN (SELECT count(*) AS n FROM r GROUP BY session_window(b, '1 hour')) x ON true",
    ],
)
def test_sessions_of_a_table_and_groups_of_sessions_are_no_sessions_of_a_stream(sql):
    assert "no sessions over all rows together" not in found(sql)
