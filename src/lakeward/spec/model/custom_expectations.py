"""Checks Great Expectations does not have: their names and arguments, as `kwargs` of an expectation.

They look at more than rows: at how the table usually grows, and at other tables.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, Strict, model_validator

from lakeward.spec.model.base import SpecModel, Text
from lakeward.spec.model.types import Name, TableName
from lakeward.spec.sql.statements import Expression

Limit = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Mostly = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Usual(SpecModel):
    """What an unusual value is: so many spreads from the median of the newest runs, or of those of the same hour."""

    limit: Limit = 6
    """Spreads (median absolute deviations, scaled to standard deviations) from the median."""
    runs: Annotated[int, Strict(), Field(ge=3, le=1000)] = 50
    """How many of the newest runs are looked at."""
    at_least: Annotated[int, Strict(), Field(ge=3, le=1000)] = 10
    """Runs before it says anything."""


class Volume(Usual):
    """Rows that land in an hour, as usual. Other days count at the same hour, once there are enough of them."""

    only: Annotated[str, Field(pattern="^(less|more|both)$")] = "both"
    """Which way is wrong: `less`, `more` or `both`."""


class Freshness(Usual):
    """The age of the newest event when its rows were committed, not more than usual."""

    column: Text
    """The event time: a timestamp."""


class KeysPresent(SpecModel):
    """Every key of the rows is in another table. A row with a null among its keys has none, and is not judged."""

    columns: Annotated[tuple[Name, ...], Field(min_length=1)]
    reference: TableName
    keys: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The columns there, where they have other names."""
    mostly: Mostly = 1

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.keys is not None and len(self.keys) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns cannot be compared with {len(self.keys)} keys")
        return self


class TotalsEqual(SpecModel):
    """Totals by group equal those of another table, e.g. of the raw rows that windows were made of."""

    total: Expression
    """Aggregate over this table, e.g. `sum(flights)`."""
    other: TableName
    other_total: Expression
    """Aggregate over the other table, e.g. `count(1)`."""
    by: Annotated[dict[Name, Expression], Field(min_length=1)]
    """Column here -> expression over the other table, e.g. `hour: date_trunc('hour', time_hour)`. Groups between the
    smallest and the largest of the first column here are compared."""
    tolerance: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0
    """Share by which a total may differ, e.g. for rows a watermark dropped as late."""
    mostly: Mostly = 1


class LandedEqualsOffsets(SpecModel):
    """Every record of the offsets that the range's batches moved over is there once: landed, in quarantine, filtered or
    given up by a person. For tables that streams of lineage `rows` append to from Kafka; looks at all new commits."""


OWN: dict[str, type[SpecModel]] = {
    "expect_volume_as_usual": Volume,
    "expect_freshness_as_usual": Freshness,
    "expect_keys_to_be_in_reference": KeysPresent,
    "expect_totals_to_equal_other_table": TotalsEqual,
    "expect_landed_to_equal_offsets": LandedEqualsOffsets,
}
"""Name of a check -> the model of its `kwargs`."""

OF_COMMITS = frozenset({"expect_landed_to_equal_offsets"})
"""Checks that have something to say of commits without a row, too."""
