"""Which rows a check of our own looks at."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.quality.engine.custom import CheckContext, check
from lakeward.quality.ranges.range import Read, decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import State
from lakeward.spec.model.suite import Expectation


def look(history: Any) -> CheckContext:
    """Frames are told by what would be read."""

    def nothing(*given: Any) -> Any:
        raise AssertionError(given)

    found: Any = decide(history, [Mark(1, 1)])
    frames: Any = {"frame": lambda: "the rows of the check", "rows": lambda read: read}
    return CheckContext(found=found, history=history, table=nothing, past=lambda name: [], landings=nothing, **frames)


def test_rows_are_looked_at_together_with_all_others_where_some_were_rewritten(line) -> None:
    assert look(line("append", "append")).together() == "the rows of the check"
    assert look(line("append", "overwrite", traced=1)).together() == Read(None, 2)


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_the_volume_of_rewritten_rows_is_not_judged(line, operation: str) -> None:
    asked = ConfiguredCheck("v", Expectation(type="expect_volume_as_usual"), "increment")
    found = check(asked, look(line("append", operation, "append", traced=1)))
    assert found.state is State.SKIPPED and "rewritten in the range" in (found.error or "")
