"""Data sources by their name: what is passed on, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from problems import texts

BOTH = """\
owner: o
source:
  format: {name: rate-micro-batch, options: {rowsPerBatch: "5"}}
sink:
  format: {name: orc, options: {path: /out}}
"""


def test_it_is_allowed_and_says_its_promise(stream: Callable[..., Any]) -> None:
    said = texts(stream(BOTH))
    assert "rate-micro-batch is passed on to Spark by name: at least once, only the checkpoint has its progress" in said
    assert "orc is passed on to Spark by name: at least once, a batch may repeat" in said
    assert all(problem.severity == "warning" for problem in stream(BOTH).problems)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate-micro-batch", "kafka", "kafka has its own connector, which keeps a position: write kafka:"),
        ("rate-micro-batch", "Text", "Text has its own connector, which keeps a position: write files:"),
        ("name: orc", "name: delta", "delta has its own connector, which keeps a position: write delta:"),
        ("{path: /out}", "{checkpointLocation: /c}", "checkpointLocation cannot be set"),
        ("{path: /out}", "{path: /out, user.password: x}", "this looks like a secret"),
        ("rowsPerBatch:", "api.key:", "this looks like a secret"),
        ("sink:", "decode: {json: 'n INT'}\nsink:", "decode belongs to records of bytes; rate-micro-batch has columns"),
    ],
)
def test_what_is_refused(stream: Callable[..., Any], old: str, new: str, message: str) -> None:
    assert message in texts(stream(BOTH.replace(old, new)))
