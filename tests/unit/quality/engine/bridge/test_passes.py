"""Rounds of metrics, and statements side by side: each with the tags of its caller, none lost."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeward.platform.errors import Internal
from lakeward.quality.engine.bridge.passes import Metrics, together


def test_a_metric_whose_need_is_missing_ends_the_rounds() -> None:
    other: Any = SimpleNamespace(id="rows", metric_name="table.row_count", metric_dependencies={})
    metric: Any = SimpleNamespace(id="mean", metric_name="column.mean", metric_dependencies={"table.row_count": other})
    nothing = cast(Any, None)  # no rows and no engine are asked for
    with pytest.raises(Internal, match=r"column\.mean"):
        Metrics(nothing, nothing).compute([metric])


class Session:
    """Tags a thread, as Spark Connect keeps them."""

    def __init__(self) -> None:
        self._local = threading.local()

    def getTags(self) -> set[str]:
        return set(getattr(self._local, "tags", ()))

    def addTag(self, tag: str) -> None:
        self._local.tags = self.getTags() | {tag}

    def clearTags(self) -> None:
        self._local.tags = set()


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_each_is_done_under_the_tags_of_who_asked(number: int) -> None:
    session, seen = Session(), []
    session.addTag("patience-1")
    together(session, [lambda: seen.append(session.getTags())] * number)
    assert seen == [{"patience-1"}] * number


def test_what_one_raises_is_raised_when_the_others_have_ended() -> None:
    ended = threading.Event()

    def fails() -> None:
        raise ValueError("no server")

    with pytest.raises(ValueError, match="no server"):
        together(Session(), [fails, ended.set, fails])
    assert ended.is_set()
