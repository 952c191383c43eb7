"""`late: {table: ..}`: accepted where Spark shows which records it drops, refused with the reason elsewhere."""

from __future__ import annotations

import pytest

from lakeward.spec.sql.late import NotSeen, select_of

WINDOW = (
    "transform: {sql: \"SELECT window(at, '1 hour').end AS w, id, count(*) AS n FROM source "
    "GROUP BY window(at, '1 hour'), id\"}\n"
)
LATE = "late: {table: n.late}\n"
SINK = "sink: {iceberg: {table: n.t}}\n"
KAFKA = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
decode: {json: "id INT, at TIMESTAMP, other TIMESTAMP"}
"""
WATERMARK = "watermark: {column: at, delay: 1h}\n"
UNIQUE = "deduplicate: {keys: [id]}\n"
GOOD = KAFKA + WATERMARK + SINK + LATE


def errors(loaded):
    return [(each.path, each.line, each.message) for each in loaded.problems if each.severity == "error"]


@pytest.mark.parametrize(
    "text",
    [
        GOOD + UNIQUE,
        GOOD + UNIQUE.replace("]}", "], within_watermark: false}"),
        GOOD + WINDOW,
        GOOD + WINDOW + UNIQUE,
        GOOD
        + WINDOW.replace("window(at, '1 hour')", "session_window(at, '1 hour')").replace(
            "session_window(at, '1 hour').end", "session_window.end"
        ),
        GOOD.replace(
            "kafka: {topics: [t], max_offsets_per_trigger: 5}",
            "kinesis: {stream: s, region: eu-west-1, max_records_per_trigger: 9}",
        )
        + UNIQUE,
        GOOD.replace(SINK, "sink: {console: {}}\nquarantine: {table: n.q}\n") + WINDOW,
    ],
)
def test_it_is_accepted_where_spark_shows_what_it_drops(stream, text):
    loaded = stream(text)
    assert errors(loaded) == []
    spec = loaded.streams["a"].spec
    assert spec.late.table == "n.late"
    assert "n.late" in spec.tables


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD, "it keeps no state, so none is dropped; add deduplicate: or group by a window, or remove late:"),
        (KAFKA + SINK + LATE, "without a watermark nothing is late; add watermark: {column: .., delay: ..}, or remove"),
        (
            GOOD.replace(SINK, "sink: {iceberg: {table: n.t, mode: complete}}\nstate: {max_rows: 9}\n") + WINDOW,
            "mode complete keeps all groups and drops none; remove late:",
        ),
        (
            GOOD.replace("kafka: {topics: [t], max_offsets_per_trigger: 5}",
                         "files: {path: /x, format: json, max_files_per_trigger: 1}")
            + WINDOW,
            "its source is files, and only records of Kafka and Kinesis are kept; remove late:",
        ),
        (
            GOOD + WINDOW.replace("FROM source", "FROM source JOIN source AS b USING (id)"),
            "its SQL joins the source with itself; remove late:",
        ),
        (
            GOOD + WINDOW.replace("FROM source", "FROM (SELECT * FROM source)"),
            "its SQL is more than one SELECT; "
            "write one SELECT FROM source, grouped by one window(at, ..), or remove late:",
        ),
        (
            GOOD + WINDOW.replace("FROM source", "FROM source WHERE at < now()"),
            "its SQL calls now(), which has another value when the records are read again; write one SELECT",
        ),
    ],
)  # fmt: skip
def test_it_is_refused_at_its_key_with_the_reason_and_what_to_do(stream, text, why):
    [(path, line, message)] = errors(stream(text))
    assert (path, line) == ("late", text.split("late:")[0].count("\n") + 1)
    assert message.startswith(f"late records of this stream cannot be kept: {why}")
    assert "remove late:" in message


def test_of_several_sources_nobody_knows_which_one_was_late(stream):
    source = "{kafka: {topics: [t], max_offsets_per_trigger: 5}, decode: {json: 'id INT, at TIMESTAMP'}, " \
             "watermark: {column: at, delay: 1h}, deduplicate: {keys: [id]}}"  # fmt: skip
    sql = "transform: {sql: SELECT id FROM a UNION ALL SELECT id FROM b}\nlineage: none\n"
    [(path, _, message)] = errors(stream(f"owner: x\nsources:\n  a: {source}\n  b: {source}\n{SINK}{LATE}{sql}"))
    assert path == "late"
    assert "it has several sources, and Spark does not say of which one it drops a record" in message


def test_what_python_does_is_not_known_before_it_runs(stream):
    python = {"python/mine.py": "def f(source):\n    return source\n"}
    [(path, _, message)] = errors(stream(GOOD + UNIQUE + 'transform: {python: "mine:f"}\n', **python))
    assert path == "late"
    assert "not known before it runs; write the transform in SQL, or remove late:" in message


def test_a_function_that_may_answer_otherwise_is_not_asked_again(stream):
    python = {"python/mine.py": "def odd(n):\n    return True\n"}
    text = GOOD + WINDOW.replace("FROM source", "FROM source WHERE odd(id)").rstrip("}\n")
    text += ", udfs: {odd: {python: 'mine:odd', returns: BOOLEAN, deterministic: %s}}}\n"
    assert errors(stream(text % "true", **python)) == []
    [(_, _, message)] = errors(stream(text % "false", **python))
    assert "its SQL calls odd(), which has another value when the records are read again" in message


def test_a_mistake_elsewhere_is_reported_alone(stream):
    """A sink or a source that is wrong says nothing about late records."""
    found = errors(stream(GOOD.replace("column: at", "columm: at") + WINDOW))
    assert {path.partition(".")[0] for path, _, _ in found} == {"watermark"}


@pytest.mark.parametrize(
    ("late", "message"),
    [("n.t", "late and sink are the same table"), ("n.t_quarantine", "late and quarantine are the same table")],
)
def test_it_needs_a_table_of_its_own(stream, late, message):
    assert (("late.table", message)) in [(path, text) for path, _, text in errors(
        stream(GOOD.replace("n.late", late) + UNIQUE))]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("n.b", "stream b lands its rows in this table; late records need a separate table"),
        ("n.b_quarantine", "it is the quarantine of stream b; late records need a separate table"),
    ],
)
def test_the_table_of_another_stream_is_not_taken(project, table, message):
    other = (KAFKA + SINK).replace("n.t", "n.b")
    loaded = project({"conf/streams/a.yaml": GOOD.replace("n.late", table) + UNIQUE, "conf/streams/b.yaml": other})
    assert [(path, text) for path, _, text in errors(loaded)] == [("late.table", message)]


def test_streams_may_share_one(project):
    other = (GOOD + UNIQUE).replace("n.t}", "n.b}")
    assert errors(project({"conf/streams/a.yaml": GOOD + UNIQUE, "conf/streams/b.yaml": other})) == []


def test_it_is_not_a_default_of_all_streams(project):
    [(path, _, message)] = errors(project({"conf/lakeward.yaml": "defaults:\n  late: {table: n.late}\n"}))
    assert path == "defaults.late"
    assert "late" in message


def of(select: str = "count(*) AS n", rest: str = "GROUP BY window(at, '1 hour'), k", where: str = "") -> str:
    return f"SELECT {select} FROM source {where}{rest}"


@pytest.mark.parametrize(
    ("sql", "window", "reads"),
    [
        (of(), "window(at, '1 hour')", "FROM source"),
        (of(where="WHERE k = 'a' AND n IN (1, 2) -- few\n"), "window(at, '1 hour')",
         "FROM source WHERE k = 'a' AND n IN (1, 2)"),
        (of("a IS DISTINCT FROM b AS c, count(*)"), "window(at, '1 hour')", "FROM source"),
        (of("window.start, k"), "window(at, '1 hour')", "FROM source"),
        (of("window(at, '1 hour') AS w, k, count(*)", "GROUP BY w, k"), "window(at, '1 hour')", "FROM source"),
        (of("window(at, '1 hour') AS w, k, count(*)", "GROUP BY 1, k"), "window(at, '1 hour')", "FROM source"),
        (of("window(at, '1 hour') AS w, k, count(*)", "GROUP BY ALL"), "window(at, '1 hour')", "FROM source"),
        (of(rest="AS s GROUP BY session_window(s.at, CASE WHEN k THEN '1 hour' ELSE '9 hours' END), k"),
         "session_window(s.at, CASE WHEN k THEN '1 hour' ELSE '9 hours' END)", "FROM source AS s"),
        (of(where="WHERE unix_timestamp(at) > 1 "), "window(at, '1 hour')", "FROM source WHERE unix_timestamp(at) > 1"),
        (of(where="WHERE `now` > 1 "), "window(at, '1 hour')", "FROM source WHERE `now` > 1"),
        (of(rest="GROUP BY window(at, '1 hour'), k HAVING count(*) > 1 AND n > 2"), "window(at, '1 hour')",
         "FROM source"),
    ],
)  # fmt: skip
def test_the_late_rows_are_read_with_the_words_of_the_transform(sql, window, reads):
    assert select_of(sql, "AT") == f"SELECT *, {window} AS `_lw_window` {reads}"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT", "cannot be read here"),
        (of() + " UNION ALL " + of(), "more than one SELECT"),
        (
            "WITH s AS (SELECT * FROM source) SELECT count(*) FROM s GROUP BY window(at, '1 hour')",
            "more than one SELECT",
        ),
        (of(where="WHERE k IN (SELECT 1) "), "more than one SELECT"),
        (of(where="TABLESAMPLE (10 PERCENT) "), "does not read the source as it is"),
        (of(where="JOIN names USING (k) "), "joins another table"),
        (of(where=", names "), "joins another table"),
        (of(where="LATERAL VIEW explode(a) AS b "), "LATERAL VIEW"),
        (of(where="PIVOT (sum(a) FOR b IN (1, 2)) "), "PIVOT"),
        (of("DISTINCT count(*)"), "DISTINCT"),
        (of(rest=""), "no GROUP BY"),
        (of(rest="GROUP BY k"), "no window"),
        (of(rest="GROUP BY window(at, '1 hour'), window(at, '2 hours')"), "several windows"),
        (of(rest="GROUP BY CUBE(window(at, '1 hour'), k)"), "several sets"),
        (of(rest="GROUP BY window(at, '1 hour').end, k"), "not exactly one window"),
        (of("window(at, '1 hour') AS w", "GROUP BY 3, k"), "not exactly one window"),
        (of(rest="GROUP BY window(other, '1 hour'), k"), "not one of at, the watermark's column"),
        (of(rest="GROUP BY window(CAST(at AS TIMESTAMP), '1 hour'), k"), "not one of at"),
        (of(rest="GROUP BY window(at, '1 hour'), k, at"), "one event time only"),
        (of(rest="GROUP BY window(at, '1 hour'), k HAVING k = 1"), "HAVING tests a column of GROUP BY"),
        (of(rest="GROUP BY window(at, '1 hour'), k HAVING (n > 1 AND k = 1)"), "HAVING tests a column of GROUP BY"),
        (of(where="WHERE at < current_date "), r"current_date\(\), which has another value"),
        (of(where="WHERE rand() < 0.5 "), r"rand\(\), which has another value"),
        (of(where="WHERE unix_timestamp() > 1 "), r"unix_timestamp\(\), which has another value"),
    ],
)
def test_a_query_whose_late_rows_cannot_be_found_says_why(sql, why):
    with pytest.raises(NotSeen, match=why):
        select_of(sql, "at")
