"""Statements side by side: each with the tags of who asked, none forgotten."""

from __future__ import annotations

import threading

import pytest

from lakeward.quality.engine.bridge.passes import together


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
