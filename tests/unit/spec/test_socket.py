"""A socket as a source: what is left of a stream when nothing can be read twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from problems import texts

WORDS = """\
owner: o
source:
  socket: {host: localhost, port: 9999}
transform: {sql: "SELECT word, count(*) AS n FROM (SELECT explode(split(value, ' ')) AS word FROM source) GROUP BY 1"}
sink:
  console: {mode: complete}
state: {max_rows: 100000}
"""


def test_the_word_count_is_allowed_and_says_what_it_loses(stream: Callable[..., Any]) -> None:
    loaded = stream(WORDS)
    [problem] = loaded.problems
    assert (problem.severity, problem.path, problem.line) == ("warning", "source.socket", 3)
    assert problem.message == (
        "lines of a socket cannot be read twice: lines are lost with every stop, kill and failure; for looking, "
        "not for data"
    )
    assert loaded.streams["a"].spec.source.declared_columns == "value STRING"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *(
            ("console: {mode: complete}", sink, f"so there is no position, and {name} would")
            for name, sink in {
                "iceberg": "iceberg: {table: n.t, mode: complete}",
                "delta": "delta: {table: n.t, mode: complete}",
                "postgres": "postgres: {connection: c, table: t}",
                "files": "files: {path: /out, format: json}",
            }.items()
        ),
        ("sink:", "decode: {json: 'n INT'}\nsink:", "decode belongs to records of bytes; a line of a socket is one"),
        ("state:", "trigger: {available_now: true, schedule: '0 * * * *'}\nstate:", "a socket has no end that could"),
        ("state:", "trigger: {continuous: 1s}\nstate:", "continuous reads Kafka only"),
        ("port: 9999", "port: 70000", "this must be at most 65535"),
        (
            "source:\n  socket: {host: localhost, port: 9999}",
            "sources:\n  source: {socket: {host: h, port: 1}}\n  other: {rate: {}}",
            "starts without a position at every start, and so would its other sources: use a separate stream for it",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(stream: Callable[..., Any], old: str, new: str, message: str) -> None:
    assert old in WORDS
    assert message in texts(stream(WORDS.replace(old, new)))


def test_a_mode_of_the_console_that_the_sql_does_not_fit(stream: Callable[..., Any]) -> None:
    plain = WORDS.replace(WORDS.splitlines()[3], 'transform: {sql: "SELECT * FROM source"}')
    assert "the SQL groups nothing; use mode: append" in texts(stream(plain))
    assert "the SQL groups nothing; use mode: append" in texts(stream(plain.replace("complete", "update")))
    assert "without a watermark no group is ever done" in texts(stream(WORDS.replace("complete", "append")))
