"""Statements side by side: planning one on the server takes as long as running it, and uses one core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

AT_ONCE = 2


def together(session: Any, asks: Sequence[Callable[[], None]]) -> None:
    """Do all of them; what one raises is raised when the others have ended.

    Each thread has this one's tags, so that whoever interrupts this thread's statements interrupts theirs.
    """
    if len(asks) < 2:
        for ask in asks:
            ask()
        return
    tags = session.getTags()

    def tagged(ask: Callable[[], None]) -> None:
        session.clearTags()  # the thread's own, of what it did before
        for tag in tags:
            session.addTag(tag)
        ask()

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="together") as pool:
        started = [pool.submit(tagged, ask) for ask in asks]
    for each in started:
        each.result()
