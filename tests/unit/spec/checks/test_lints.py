from __future__ import annotations

import pytest

from lakeward.platform.runtime import Project
from lakeward.spec.read.loader import load_project

HEAD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
decode: {json: "id INT, at TIMESTAMP"}
"""
TABLE = "sink: {iceberg: {table: n.t}}\n"


def warned(loaded):
    assert {each.severity for each in loaded.problems} <= {"warning"}, loaded.problems
    return [(each.path, each.message) for each in loaded.problems]


@pytest.mark.parametrize(("every", "times"), [("999ms", 1), ("1s", 0)])
def test_a_table_is_not_committed_to_many_times_a_second(stream, every, times):
    found = warned(stream(HEAD + TABLE + f"trigger: {{every: {every}}}\n"))
    assert [path for path, _ in found] == ["trigger.every"] * times


def test_a_topic_takes_batches_as_often_as_one_likes(stream):
    sink = "sink: {kafka: {topic: u}}\nquarantine: {table: n.q}\n"
    assert warned(stream(HEAD + sink + "trigger: {every: 100ms}\n")) == []


@pytest.mark.parametrize("made", ["uuid()", "concat('k', rand())", "current_timestamp()", "CAST(now() AS DATE)"])
def test_a_key_or_partition_that_is_another_every_time_is_warned_of(stream, made):
    sql = f'transform: {{sql: "SELECT *, {made} AS k FROM source"}}\n'
    upsert = "sink: {iceberg: {table: n.t, mode: upsert, keys: [id, K]}}\n"
    [(path, message)] = warned(stream(HEAD + sql + upsert))
    assert path == "sink.iceberg.keys[1]"
    assert "its value changes when the batch is retried" in message
    [(path, _)] = warned(stream(HEAD + sql + "sink: {iceberg: {table: n.t, partition_by: [id, k]}}\n"))
    assert path == "sink.iceberg.partition_by[1]"


def test_such_a_column_that_decides_nothing_is_fine(stream):
    sql = 'transform: {sql: "SELECT *, uuid() AS k, id + 1 AS next FROM source"}\n'
    assert warned(stream(HEAD + sql + "sink: {iceberg: {table: n.t, partition_by: [next]}}\n")) == []


PARTITIONED = [
    ("[at]", "at is TIMESTAMP"), ("[_kafka_offset]", "different _kafka_offset"), ("['hours(at)', s]", "hours(at)"),
    ("['bucket(300, id)']", "300 buckets"), ("['days(at)', 'bucket(256, id)', s]", None), ("['hours(at)']", None),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "words"), PARTITIONED)
def test_a_partition_for_nearly_every_row_is_warned_of(stream, fields, words):
    head = HEAD.replace("at TIMESTAMP", "at TIMESTAMP, s STRING")
    found = warned(stream(head + f"sink: {{iceberg: {{table: n.t, partition_by: {fields}}}}}\n"))
    assert [words in message and "days() of a time" in message for _, message in found] == ([True] if words else [])


def test_the_only_key_of_an_upsert_is_no_partition(stream):
    upsert = "sink: {%s: {table: n.t, mode: upsert, keys: [%s], partition_by: [id]}}\n"
    for connector in ("iceberg", "delta"):
        [(path, message)] = warned(stream(HEAD + upsert % (connector, "id")))
        assert path == f"sink.{connector}.partition_by[0]"
        assert "each row has a partition" in message
        assert warned(stream(HEAD + upsert % (connector, "id, at"))) == []


def grouped(sql: str, mode: str, more: str = "") -> str:
    keys = ", keys: [id]" if mode == "upsert" else ""
    return (
        HEAD
        + f'transform: {{sql: "{sql}"}}\nsink: {{iceberg: {{table: n.t, mode: {mode}{keys}}}}}\nlineage: none\n{more}'
    )


BY_ID = "SELECT id, count(*) AS c FROM source GROUP BY id"
BY_HOUR = "SELECT id, window(at, '1 hour') AS w, count(*) AS c FROM source GROUP BY id, window(at, '1 hour')"
MARK = "watermark: {column: at, delay: 1h}\n"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (grouped(BY_ID, "upsert"), "transform.sql", "state: {max_rows: N}"),
        (grouped(BY_ID, "upsert", MARK), "transform.sql", "the groups by id"),
        (grouped(BY_HOUR, "upsert"), "transform.sql", "add a watermark"),
        (grouped(BY_ID, "complete"), "sink.iceberg.mode", "use mode: upsert"),
        (grouped(BY_HOUR, "complete", MARK), "sink.iceberg.mode", "no watermark ends one"),
    ],
)
def test_groups_that_nothing_ends_are_warned_of(stream, text, path, words):
    [(found, message)] = warned(stream(text))
    assert found == path
    assert words in message
    assert warned(stream(text + "state: {max_rows: 50}\n")) == []


def test_groups_that_end_are_fine(stream):
    assert warned(stream(grouped(BY_HOUR, "upsert", MARK))) == []
    assert warned(stream(grouped("SELECT count(*) AS id FROM source", "complete"))) == []


def test_rows_that_wait_for_a_match_for_ever_are_warned_of(stream):
    mark = " watermark: {column: at, delay: 1h},"
    each = "{kafka: {topics: [%s], max_offsets_per_trigger: 5},%s decode: {json: 'id INT, at TIMESTAMP'}}"
    bound = " AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"

    def joined(marked: str, on: str) -> str:
        sql = f'transform: {{sql: "SELECT a.id FROM a JOIN b ON a.id = b.id{on}"}}\n'
        return (
            f"owner: x\nsources: {{a: {each % ('a', marked)}, b: {each % ('b', marked)}}}\n{sql}lineage: none\n{TABLE}"
        )

    for text in (joined("", ""), joined(mark, ""), joined("", bound)):
        [(path, message)] = warned(stream(text))
        assert path == "transform.sql"
        assert "stays in state forever, waiting for a match" in message
        assert warned(stream(text + "state: {max_rows: 50}\n")) == []
    assert warned(stream(joined(mark, bound))) == []


def test_batches_that_take_longer_than_their_trigger_are_warned_of(stream, tmp_path):
    text = HEAD + TABLE + "trigger: {every: 10s}\n"
    stream(text)
    project = Project(tmp_path.resolve())

    def told(*took: float) -> list[str]:
        return [each.message for each in load_project(project, durations=lambda names: {"a": took}).problems]

    [message] = told(*[3.0] * 90, *[12.5] * 10)
    assert "up to 12.5 s" in message
    assert "a longer trigger" in message
    assert told(*[3.0] * 95, *[99.0] * 5) == []
    assert told(*[99.0] * 19) == [], "too few to say"


UPSERT = "sink: {iceberg: {table: n.t, mode: upsert, keys: [id], order_by: at}}\n"


@pytest.mark.parametrize(
    ("sql", "times"),
    [
        ("SELECT id, at FROM source", 1),
        ("SELECT id, at, upper('x') AS x FROM source WHERE id > 1", 1),
        ("SELECT * FROM source", 0),
        ("SELECT id, at, _kafka_offset FROM source", 0),
        ("SELECT id, _kafka_offset AS at FROM source", 0),
        ("SELECT s.* FROM source s", 0),
    ],
)
def test_an_order_that_leaves_ties_to_chance_is_warned_of(stream, sql, times):
    found = [
        path for path, words in warned(stream(HEAD + f'transform: {{sql: "{sql}"}}\n' + UPSERT)) if "chance" in words
    ]
    assert found == ["sink.iceberg.order_by"] * times


@pytest.mark.parametrize(
    ("sql", "paths"),
    [
        ("SELECT id AS `order id`, at FROM source", ["transform.sql"]),
        ("SELECT * FROM source", ["decode.json"]),
        ("SELECT id AS order_id FROM source", []),
    ],
)
def test_a_column_whose_name_a_delta_table_does_not_take_is_reported_before_it_blocks(stream, sql, paths):
    head = HEAD.replace("id INT", "id INT, `net price` DOUBLE")
    text = head + f'lineage: none\ntransform: {{sql: "{sql}"}}\nsink: {{delta: {{table: n.t}}}}\n'
    found = warned(stream(text))
    assert [path for path, _ in found] == paths
    assert all("Delta takes no column named" in words for _, words in found)
    assert warned(stream(text.replace("delta:", "iceberg:"))) == []
