"""A failed batch: what a source says about it, and what it does not hide."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeward.engine.batch import BatchFunction, Interrupted
from lakeward.platform.errors import LakewardError, Poison


def fail(look: Callable[..., LakewardError | None]) -> None:
    """A batch that fails as Spark does, with a source that looks at the failure."""
    source = SimpleNamespace(name="source", failed_to_read=look)
    offsets = SimpleNamespace(start={"source": "1"}, end={"source": "2"})
    batch = cast("Any", object.__new__(BatchFunction))
    batch.stream, batch.flow = "s", SimpleNamespace(sources=[source])
    batch.sink = SimpleNamespace(running=lambda batch_id: offsets)
    with batch._failures_of_sources(7):
        raise ValueError("as Spark says it")


def test_the_words_of_a_source_take_the_place_of_sparks() -> None:
    given: list[tuple[str, ...]] = []

    def named(*words: str) -> LakewardError:
        given.append(words)
        return Poison("A record cannot be read", why="offset 1", code="LW-3491")

    with pytest.raises(Poison) as raised:
        fail(named)
    assert isinstance(raised.value.__cause__, ValueError)
    [(stream, text, start, end)] = given
    assert (stream, start, end) == ("s", "1", "2") and "as Spark says it" in text


def test_a_failure_elsewhere_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="as Spark says it"):
        fail(lambda *words: None)


def test_a_look_that_fails_itself_hides_no_failure() -> None:
    def away(*words: str) -> LakewardError | None:
        raise ConnectionError("the broker is away")

    with pytest.raises(ValueError, match="as Spark says it"):
        fail(away)


def test_an_interruption_during_the_look_ends_the_batch() -> None:
    def interrupted(*words: str) -> LakewardError | None:
        raise Interrupted

    with pytest.raises(Interrupted):
        fail(interrupted)
