"""How far an event may be ahead of the wall clock, as a user writes it."""

from __future__ import annotations

import pytest

HEAD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
decode: {json: "id INT, at TIMESTAMP"}
sink: {iceberg: {table: n.t}}
"""


def bound(loaded):
    assert [each.message for each in loaded.problems] == []
    return loaded.streams["a"].spec.source.max_ahead


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("", "1h"), (", max_ahead: 10m", "10m"), (', max_ahead: "off"', None), (", max_ahead: off", None)],
)
def test_it_is_an_hour_for_kafka_unless_it_is_given_or_off(stream, written, wanted):
    assert bound(stream(HEAD + f"watermark: {{column: at, delay: 1h{written}}}\n")) == wanted


def test_without_a_watermark_there_is_none(stream):
    assert bound(stream(HEAD)) is None


@pytest.mark.parametrize("written", ["0s", "-1h", "soon", "true"])
def test_it_is_a_duration_above_zero_or_off(stream, written):
    loaded = stream(HEAD + f"watermark: {{column: at, delay: 1h, max_ahead: {written}}}\n")
    assert [each.severity for each in loaded.problems] == ["error"]
    assert loaded.problems[0].path.startswith("watermark.max_ahead")


FILES = """\
owner: x
source: {files: {path: in, max_files_per_trigger: 5, format: json}}
decode: {json: "id INT, at TIMESTAMP"}
sink: {iceberg: {table: n.t}}
"""


def test_files_may_be_read_long_after_their_events_and_have_none(stream, tmp_path):
    (tmp_path / "in").mkdir()
    assert bound(stream(FILES + "watermark: {column: at, delay: 1h}\n")) is None
    assert bound(stream(FILES + "watermark: {column: at, delay: 1h, max_ahead: off}\n")) is None
    [problem] = stream(FILES + "watermark: {column: at, delay: 1h, max_ahead: 1h}\n").problems
    assert (problem.severity, problem.path) == ("error", "watermark.max_ahead")
    assert "for kafka and kinesis only" in problem.message
