"""A stream that reads what it writes never ends."""

from __future__ import annotations

import pytest
from problems import texts


@pytest.mark.parametrize(
    ("source", "sink", "itself"),
    [
        ("topics: [t]", "topic: t", True),
        ("topics: [t]", "topic: t1", False),
        ("topics: [t]", "topic: t, connection: other", False),
        ("topics: [t], connection: other", "topic: t, connection: other", True),
        ("pattern: 't.*'", "topic: t1", True),
        ("pattern: 't.*'", "topic: out", False),
        ("pattern: 't'", "topic: t1", False),
        ("pattern: 't.*'", "topic: t1, connection: other", False),
    ],
)
def test_a_stream_feeds_itself_over_one_connection(stream, minimal, source, sink, itself):
    text = minimal.split("sink:")[0].replace("topics: [flights]", source)
    said = texts(stream(f"{text}sink: {{kafka: {{{sink}}}}}\nquarantine: {{table: n.q}}\n"))
    assert ("the stream would feed itself" in said) is itself
