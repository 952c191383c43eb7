"""The context and the result of Lakeward's own checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeward.quality.engine.custom.landed import Landings
from lakeward.quality.engine.custom.outlier import Past
from lakeward.quality.ranges.range import Range, Read
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame

SAMPLE = 10


@dataclass(frozen=True)
class CheckContext:
    """What a check may use.

    Attributes:
        found: the range of the run.
        history: the metadata it was decided on.
        frame: the rows this check reads.
        table: reads another table of the lake, as it is now.
        past: check id -> its observed values in earlier runs, newest first.
        rows: reads the rows of a part of the range.
        landings: stream and seq -> the stream's batches in the registry from that seq on.
    """

    found: Range
    history: History
    frame: Callable[[], DataFrame]
    table: Callable[[str], DataFrame]
    past: Callable[[str], Sequence[Past]]
    rows: Callable[[Read], DataFrame]
    landings: Callable[[str, int], Landings]

    def together(self) -> DataFrame:
        """The rows for a check that judges them as a group. If rows were rewritten, this is the whole table, because
        rewritten rows alone may be old rows or parts of a group.
        """
        if self.found.rewritten and self.found.head is not None:
            return self.rows(Read(None, self.found.head.id))
        return self.frame()


def enough(failing: int, judged: int, mostly: float) -> bool:
    """Whether so many of the judged rows or groups pass.

    The comparison is that of Great Expectations: one of ten may fail with `mostly: 0.9`. `1 - mostly` would round.
    """
    return judged == 0 or (judged - failing) / judged >= mostly


def result(configured: ConfiguredCheck, passed: bool, **found: Any) -> Check:
    """A result with its findings."""
    return replace(configured.blank(State.PASS if passed else State.FAIL), **found)
