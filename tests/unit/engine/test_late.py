"""The watermark of late rows is read from the operators that drop them, and from nothing that only looks like it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.engine.late import watermark_of
from lakeward.platform.errors import Internal


class Node:
    """A node of a physical plan, as py4j shows it."""

    def __init__(self, kind: str, *children: Node, mark: int | None = None) -> None:
        self.kind, self.below, self.mark = kind, children, mark

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: self.kind)

    def children(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.below), apply=lambda index: self.below[index])

    def eventTimeWatermarkForLateEvents(self) -> Any:
        return SimpleNamespace(get=lambda: self.mark)


def running(plan: Node) -> Any:
    return SimpleNamespace(lastExecution=lambda: SimpleNamespace(executedPlan=lambda: plan))


def test_it_is_that_of_the_operator_that_drops_rows_wherever_it_is() -> None:
    session = Node("SessionWindowStateStoreRestoreExec", Node("ScanExec"), mark=5)
    assert watermark_of(running(Node("SessionWindowStateStoreSaveExec", session, mark=7))) == 5
    unique = Node("StreamingDeduplicateWithinWatermarkExec", mark=9)
    assert watermark_of(running(Node("ProjectExec", Node("StateStoreSaveExec", unique, mark=9)))) == 9


@pytest.mark.parametrize(
    "plan",
    [
        Node("ProjectExec", Node("EventTimeWatermarkExec", mark=3)),
        Node("StateStoreSaveExec", Node("StreamingDeduplicateExec", mark=3), mark=4),
    ],
    ids=["no state", "two that differ"],
)
def test_a_plan_without_one_watermark_is_not_guessed_at(plan: Node) -> None:
    with pytest.raises(Internal, match="the one watermark for late rows is missing"):
        watermark_of(running(plan))
