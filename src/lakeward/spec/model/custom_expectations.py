"""Lakeward's own expectations: their names and their `kwargs`.

They use more than the rows of a batch: the usual growth of the table, and other tables.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, Strict, model_validator

from lakeward.spec.model.base import SpecModel, Text
from lakeward.spec.model.table_names import TableName
from lakeward.spec.model.types import Name
from lakeward.spec.sql.statements import Expression

Limit = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Mostly = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Usual(SpecModel):
    """Bounds of a usual value: spreads from the median of the newest runs, or of runs at the same hour."""

    limit: Limit = 6
    """Spreads (median absolute deviations, scaled to standard deviations) from the median."""
    runs: Annotated[int, Strict(), Field(ge=3, le=1000)] = 50
    """Number of the newest runs in the median."""
    at_least: Annotated[int, Strict(), Field(ge=3, le=1000)] = 10
    """Runs before the check gives a result."""


class Volume(Usual):
    """Rows landed per hour are within the usual range. With enough days, only the same hour of other days counts."""

    only: Annotated[str, Field(pattern="^(less|more|both)$")] = "both"
    """The direction that fails: `less`, `more` or `both`."""


class Freshness(Usual):
    """The age of the newest event at its commit is not higher than usual."""

    column: Text
    """The event time: a timestamp."""


class KeysPresent(SpecModel):
    """Every key of the rows is in another table. A row with a null in its key is not checked."""

    columns: Annotated[tuple[Name, ...], Field(min_length=1)]
    reference: TableName
    keys: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The columns of the other table, if they have other names."""
    mostly: Mostly = 1

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.keys is not None and len(self.keys) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns cannot be compared with {len(self.keys)} keys")
        return self


class TotalsEqual(SpecModel):
    """Totals by group equal those of another table, e.g. of the raw rows behind windows."""

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
    """Every record in the offset range of the new batches is accounted for once: landed, in quarantine, filtered or
    skipped by a person. For tables that streams of lineage `rows` append to from Kafka; reads all new commits."""


OWN: dict[str, type[SpecModel]] = {
    "expect_volume_as_usual": Volume,
    "expect_freshness_as_usual": Freshness,
    "expect_keys_to_be_in_reference": KeysPresent,
    "expect_totals_to_equal_other_table": TotalsEqual,
    "expect_landed_to_equal_offsets": LandedEqualsOffsets,
}
"""Name of a check -> the model of its `kwargs`."""

OF_COMMITS = frozenset({"expect_landed_to_equal_offsets"})
"""Checks that also apply to commits without rows."""
