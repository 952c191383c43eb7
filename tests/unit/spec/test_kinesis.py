"""A Kinesis source in a spec."""

from __future__ import annotations

import pytest

TEXT = (
    "owner: x\nsource: {{kinesis: {{stream: {stream}, region: {region}, max_records_per_trigger: 5{more}}}}}\n"
    "transform: {{sql: SELECT * FROM source}}\nsink: {{iceberg: {{table: n.t}}}}\n"
)


def text(stream: str = "clicks", region: str = "eu-central-1", more: str = "") -> str:
    return TEXT.format(stream=stream, region=region, more=more)


def test_it_is_taken_with_each_beginning(stream):
    for where, moment in (
        ("TRIM_HORIZON", None),
        ("LATEST", None),
        ("'2026-11-01T00:00:00Z'", 1_793_491_200_000),
    ):
        loaded = stream(text(more=f", starting_position: {where}, connection: clicks"))
        assert loaded.ok, loaded.problems
        [found] = loaded.specs
        assert found.sources["source"].kinesis.starting_position.moment_ms == moment
        assert found.lineage == "rows"


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({"stream": "'arn:aws:kinesis:eu-west-1:1:stream/clicks'"}, "stream", "give the name, not the ARN"),
        ({"region": "europe"}, "region", "eu-central-1"),
        ({"more": ", starting_position: yesterday"}, "starting_position", "TRIM_HORIZON, LATEST, or a time"),
        ({"more": ", starting_position: '2026-13-01T00:00:00Z'"}, "starting_position", "month"),
    ],
)
def test_what_cannot_be_is_refused(stream, given, key, words):
    problems = [each for each in stream(text(**given)).problems if each.severity == "error"]
    assert len(problems) >= 1
    assert any(each.path.endswith(key) and words in each.message for each in problems), problems
