"""The lines that say how a generation differs from the one before it."""

from __future__ import annotations

from lakeward.spec.deploy.generation_diff import lines

BEFORE = {"trigger": {"every": "10s"}, "transform": {"sql": "SELECT a\nFROM source"}, "tags": ["core"], "enabled": True}


def test_equal_specs_have_no_lines():
    assert lines(BEFORE, dict(BEFORE), {"m": "1"}, {"m": "1"}) == []


def test_a_value_an_added_and_a_removed_key_and_a_list():
    after = {**BEFORE, "trigger": {"every": "30s"}, "tags": ["core", "eu"], "enabled": False, "team": "ops"}
    assert lines(BEFORE, after) == [
        "trigger.every: 10s → 30s",
        "tags: [core] → [core, eu]",
        "enabled: true → false",
        "team: ops (added)",
    ]
    assert lines(after, {**after, "team": None}) == ["team: removed, was ops"]
    assert lines({"sink": {"iceberg": {"table": "a.b"}}}, {"sink": {"delta": {"table": "a.b"}}}) == [
        "sink.iceberg: removed, was {table: a.b}",
        "sink.delta: {table: a.b} (added)",
    ]


def test_a_text_of_several_lines_is_counted_by_lines():
    after = {**BEFORE, "transform": {"sql": "SELECT a, b\nFROM source\nWHERE a > 1"}}
    assert lines(BEFORE, after) == ["transform.sql: 2 lines added, 1 removed"]
    for other in ("SELECT a\nFROM source\n", "SELECT a\n\nFROM source"):
        assert lines(BEFORE, {**BEFORE, "transform": {"sql": other}})[0].startswith("transform.sql: 1 lines added")
    long = {**BEFORE, "transform": {"sql": "x" * 500}}
    assert lines({"transform": {}}, {"transform": long["transform"]}) == [f"transform.sql: {'x' * 80} ... (added)"]


def test_code_by_its_digests():
    assert lines(BEFORE, BEFORE, {"a": "1", "b": "1"}, {"b": "2", "c": "1"}) == [
        "code a: removed",
        "code b: changed",
        "code c: added",
    ]
