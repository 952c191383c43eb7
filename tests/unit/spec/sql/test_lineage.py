"""Whether every record can be accounted for, decided from the SQL."""

from __future__ import annotations

import pytest

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.analysis import analyse
from lakeward.spec.sql.lineage import decide

KAFKA = {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 5}}


def lineage(sql, asked=None, sources=None, **changes):
    data = {"id": "a", "owner": "x", "sources": sources or {"f": KAFKA}, "sink": {"iceberg": {"table": "n.a"}}}
    data |= {"reference": {"r": {"csv": "x.csv"}}, "lineage": asked} | changes
    spec = StreamSpec.model_validate({k: v for k, v in data.items() if v is not None})
    return decide(spec, analyse(sql, spec.sources))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM f",
        "SELECT *, a + 1 AS b FROM f WHERE a > 1",
        "SELECT f.*, r.x FROM f LEFT JOIN r ON f.k = r.k",
        "SELECT a, _kafka_topic, _kafka_partition, _kafka_offset FROM f",
        "WITH w AS (SELECT * FROM f) SELECT w.* FROM w",
        "SELECT x.* FROM (SELECT * FROM F) AS x",
        "SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM f",
        "SELECT * EXCEPT (_kafka_timestamp) FROM f",
        "SELECT f.*, r.x, s.x AS y FROM f LEFT JOIN r ON f.k = r.k LEFT JOIN r AS s ON f.l = s.k",
        "SELECT f.*, x.n FROM f LEFT JOIN (SELECT DISTINCT a, n FROM r) x ON x.a = f.a",
        "SELECT f.*, x.n FROM f LEFT JOIN (SELECT a, max(n) AS n FROM r GROUP BY a) x ON x.a = f.a",
        "SELECT f.*, x.n FROM f LEFT JOIN (SELECT a, n FROM r UNION SELECT b, n FROM r) x ON x.a = f.a",
        "SELECT f.*, x.n FROM f LEFT JOIN (SELECT a, explode(list) AS n FROM r) x ON x.a = f.a",
        "SELECT *, (SELECT max(n) FROM r) AS m FROM f",
        "WITH g AS (SELECT a, count(*) AS n FROM r GROUP BY a) SELECT f.*, g.n FROM f LEFT JOIN g ON g.a = f.a",
        "WITH f AS (SELECT * FROM f WHERE a > 1) SELECT * FROM f",
    ],
)
def test_rows_stay_rows(sql):
    found = lineage(sql)
    assert (found.value, found.problem) == ("rows", None)


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("SELECT a FROM f", "_kafka_offset, _kafka_partition, _kafka_topic"),
        ("SELECT * EXCEPT (_kafka_offset) FROM f", "_kafka_offset"),
        ("SELECT r.* FROM f JOIN r ON true", "_kafka_offset"),
        ("SELECT a, _kafka_offset AS o, _kafka_topic, _kafka_partition FROM f", "_kafka_offset"),
        ("SELECT a + 1 AS _kafka_offset, _kafka_topic, _kafka_partition FROM f", "_kafka_offset"),
        ("WITH w AS (SELECT a FROM f) SELECT * FROM w", "_kafka_offset"),
    ],
)
def test_dropping_the_position_is_reported_and_never_silent(sql, missing):
    found = lineage(sql)
    assert found.problem is not None
    assert f"drops {missing}" in found.problem
    assert lineage(sql, "none").problem is None


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT a, count(*) FROM f GROUP BY a", "GROUP BY"),
        ("SELECT window.start, count(*) FROM f GROUP BY window(t, '1 hour')", "GROUP BY"),
        ("SELECT max(a) FROM f", "max()"),
        ("SELECT DISTINCT a FROM f", "DISTINCT"),
        ("SELECT a FROM f UNION SELECT b FROM f", "UNION"),
        ("SELECT *, explode(b) FROM f", "explode()"),
        ("SELECT *, inline_outer(b) FROM f", "inline_outer()"),
        ("SELECT * FROM f CROSS JOIN range(3)", "range()"),
        ("SELECT * FROM f LATERAL VIEW explode(b) t AS c", "LATERAL VIEW"),
        ("SELECT * FROM f JOIN f AS g ON f.a = g.a", "joins streams"),
        ("SELECT * FROM f UNION ALL SELECT * FROM f", "reads f more than once"),
        ("SELECT * FROM f WHERE a = 1 UNION ALL SELECT * FROM f WHERE a = 2", "reads f more than once"),
        ("WITH w AS (SELECT * FROM f) SELECT * FROM w UNION ALL SELECT * FROM w", "reads f more than once"),
        ("SELECT * FROM f WHERE a IN (SELECT b FROM F)", "reads f more than once"),
        ("SELECT a, max(r.n) FROM f LEFT JOIN r ON f.k = r.k GROUP BY a", "GROUP BY"),
        ("WITH w AS (SELECT * FROM f), v AS (SELECT DISTINCT a FROM w) SELECT * FROM v", "DISTINCT"),
        ("WITH w AS (SELECT * FROM f) SELECT * FROM w JOIN w AS v ON w.a = v.a", "joins streams"),
    ],
)
def test_rows_that_are_no_records_have_no_lineage(sql, why):
    found = lineage(sql)
    assert (found.value, found.problem) == ("none", None)
    assert why in found.why
    assert "write lineage: none" in (lineage(sql, "rows").problem or "")


@pytest.mark.parametrize(
    ("other", "value"),
    [({"topics": ["u", "t"]}, "none"), ({"pattern": "t|v"}, "none"), ({"topics": ["u"]}, "rows")],
)
def test_a_topic_that_two_sources_read_gives_each_record_two_rows_of_one_position(other, value):
    sources = {"f": KAFKA, "g": {"kafka": {**other, "max_offsets_per_trigger": 5}}}
    found = lineage("SELECT * FROM f UNION ALL SELECT * FROM g", sources=sources)
    assert found.value == value
    assert ("sources f and g both read topic t" in found.why) == (value == "none")
