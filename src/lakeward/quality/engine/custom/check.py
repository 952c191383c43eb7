"""One of our own checks: what it may look at, and which class does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lakeward.quality.engine.custom.landed import CannotTell, Landings
from lakeward.quality.engine.custom.outlier import Past
from lakeward.quality.ranges.range import Range, Read
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.results.json_values import sentence
from lakeward.quality.suite.configured import Asked
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.read.messages import findings

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame

SAMPLE = 10


@dataclass(frozen=True)
class Look:
    """What a check may look at.

    Attributes:
        found: the range of the run.
        history: the metadata it was decided on.
        frame: the rows this check reads.
        table: reads another table of the lake, as it is now.
        past: check id -> its values in earlier runs, newest first.
        rows: reads the rows of a part of the range.
        landings: stream and seq -> what the registry knows of its batches from there on.
    """

    found: Range
    history: History
    frame: Callable[[], DataFrame]
    table: Callable[[str], DataFrame]
    past: Callable[[str], Sequence[Past]]
    rows: Callable[[Read], DataFrame]
    landings: Callable[[str, int], Landings]

    def together(self) -> DataFrame:
        """The rows, for a check that looks at them together: all of them where some were rewritten. The rewritten ones
        alone may be old, or parts of a group."""
        if self.found.rewritten and self.found.head is not None:
            return self.rows(Read(None, self.found.head.id))
        return self.frame()


Kind = Callable[[Any, Asked, Look], Check]
"""(its arguments, what is asked, what it may look at) -> the result."""


def is_own(asked: Asked) -> bool:
    """Whether the check is one of ours."""
    return str(asked.expectation.type) in OWN


def check(asked: Asked, look: Look) -> Check:
    """The result of one check; whatever the engine raises is an error of this check alone."""
    from lakeward.quality.engine.custom import accounted, others
    from lakeward.quality.engine.custom import history as usually

    kinds: dict[str, Kind] = {
        "expect_volume_as_usual": usually.volume,
        "expect_freshness_as_usual": usually.freshness,
        "expect_keys_to_be_in_reference": others.keys_present,
        "expect_totals_to_equal_other_table": others.totals_equal,
        "expect_landed_to_equal_offsets": accounted.landed_equals_offsets,
    }
    name = str(asked.expectation.type)
    data = dict(asked.expectation.kwargs)
    try:
        return kinds[name](OWN[name].model_validate(data), asked, look)
    except ValidationError as error:
        said = "; ".join(each.message for each in findings(error, OWN[name], data))
        return asked.blank(State.ERROR, f"its kwargs are wrong: {said}")
    except CannotTell as error:
        return asked.blank(State.ERROR, str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of one check: what an engine throws is neither pass nor failure
        return asked.blank(State.ERROR, sentence(str(error)))


def result(asked: Asked, passed: bool, **found: Any) -> Check:
    """A result with its findings."""
    return replace(asked.blank(State.PASS if passed else State.FAIL), **found)
