"""What a record has beside its value, as columns."""

from __future__ import annotations

import pytest

HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\n"
ALL = 'decode: {json: "id INT, at TIMESTAMP", columns: all}\n'
SINK = "sink: {iceberg: {table: n.t, partition_by: ['bucket(4, _kafka_key)']}}\n"


def messages(loaded):
    return [(each.path, each.message) for each in loaded.problems]


def test_the_key_is_a_column_to_partition_by_and_to_tell_records_apart(stream):
    loaded = stream(HEAD + ALL + SINK + "watermark: {column: at, delay: 1h}\ndeduplicate: {keys: [_kafka_key]}\n")
    assert messages(loaded) == []
    kept = loaded.streams["a"].spec.sources["source"].added_columns
    assert kept[:3] == ("_kafka_key", "_kafka_headers", "_kafka_topic")


def test_it_is_none_where_only_the_value_was_asked_for(stream):
    [(path, message)] = messages(stream(HEAD + ALL.replace(", columns: all", "") + SINK))
    assert path == "sink.iceberg.partition_by[0]"
    assert "'_kafka_key' is not a column of this stream" in message


@pytest.mark.parametrize("column", ["_kafka_key", "_KAFKA_HEADERS", "_kafka_offset"])
def test_nobody_declares_what_the_record_has(stream, column):
    text = HEAD + f'decode: {{json: "{column} STRING"}}\nsink: {{iceberg: {{table: n.t}}}}\n'
    [(path, message)] = messages(stream(text))
    assert path == "decode.json"
    assert f"{column} is a column that Lakeward adds" in message


def test_a_record_without_a_key_has_none_to_give(stream):
    text = "owner: x\nsource: {rate: {rows_per_second: 1}}\n" + ALL + "sink: {iceberg: {table: n.t}}\n"
    assert ("decode.columns", "a record of rate has only a value; write columns: value") in messages(stream(text))
