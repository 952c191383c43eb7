from __future__ import annotations

import pytest

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
    assert "another value when the batch runs again" in message
    [(path, _)] = warned(stream(HEAD + sql + "sink: {iceberg: {table: n.t, partition_by: [id, k]}}\n"))
    assert path == "sink.iceberg.partition_by[1]"


def test_such_a_column_that_decides_nothing_is_fine(stream):
    sql = 'transform: {sql: "SELECT *, uuid() AS k, id + 1 AS next FROM source"}\n'
    assert warned(stream(HEAD + sql + "sink: {iceberg: {table: n.t, partition_by: [next]}}\n")) == []
