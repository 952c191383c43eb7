from __future__ import annotations

import pytest

HEAD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
decode: {json: "id INT, at TIMESTAMP, tags MAP<STRING, INT>"}
sink: {iceberg: {table: n.t}}
"""
WATERMARK = "watermark: {column: at, delay: 1h}\n"


def told(loaded):
    return [(each.severity, each.path, each.message) for each in loaded.problems]


def test_keys_within_a_watermark_are_fine_and_what_is_dropped_is_filtered(stream):
    loaded = stream(HEAD + WATERMARK + "deduplicate: {keys: [id]}\n")
    assert told(loaded) == []
    assert loaded.streams["a"].spec.lineage == "rows"


def test_without_a_watermark_nobody_knows_when_a_key_may_be_forgotten(stream):
    [(severity, path, message)] = told(stream(HEAD + "deduplicate: {keys: [id]}\n"))
    assert (severity, path) == ("error", "deduplicate")
    assert "add watermark: {column: .., delay: ..}" in message


@pytest.mark.parametrize("watermark", ["", WATERMARK])
def test_keys_that_are_never_forgotten_are_warned_of(stream, watermark):
    loaded = stream(HEAD + watermark + "deduplicate: {keys: [id], within_watermark: false}\n")
    [(severity, path, message)] = told(loaded)
    assert (severity, path) == ("warning", "deduplicate.within_watermark")
    assert "grows without end" in message


def test_a_key_with_the_event_time_in_it_ends_with_the_watermark(stream):
    assert told(stream(HEAD + WATERMARK + "deduplicate: {keys: [id, AT], within_watermark: false}\n")) == []


@pytest.mark.parametrize(("key", "words"), [("idd", "not a column of this source"), ("tags", "cannot be compared")])
def test_a_key_is_a_column_that_can_be_compared(stream, key, words):
    [(_, path, message)] = told(stream(HEAD + WATERMARK + f"deduplicate: {{keys: [id, {key}]}}\n"))
    assert path == "deduplicate.keys[1]"
    assert words in message
