"""Tables of the lake as sources of a stream: what is said of one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lakeward.spec.model.base import Bool, Int, KeysProblem, PositiveInt, PositiveLong, SpecModel
from lakeward.spec.model.types import Bytes, Name, TableName


def moment(text: str) -> datetime:
    """A point in time out of RFC 3339, in UTC.

    Raises:
        ValueError: it is none, or says no time zone.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("this is no time; write it like 2026-11-01T06:00:00Z") from None
    if found.tzinfo is None:
        raise ValueError("this says no time zone; write it like 2026-11-01T06:00:00Z")
    return found.astimezone(UTC)


def _checked(text: str) -> str:
    moment(text)
    return text


Moment = Annotated[str, AfterValidator(_checked), Field(examples=["2026-11-01T06:00:00Z"])]


class IcebergSource(SpecModel):
    """The rows that are appended to an Iceberg table of the lake, commit by commit. Main alone is read."""

    table: TableName
    """The table; its columns are the record's, position columns of the stream that landed it included."""
    branch: Name | None = None
    """Refused: Spark's source of Iceberg reads main, whatever branch is named."""
    starting: Literal["earliest", "latest"] | None = None
    """Where a stream without a position begins: at the table's first commit (the default), which must still be in its
    history, or behind its newest."""
    starting_snapshot: PositiveLong | None = None
    """Begin with this snapshot instead; what was committed before it never comes."""
    starting_timestamp: Moment | None = None
    """Begin with the first snapshot committed at this time or after it."""
    max_files_per_trigger: PositiveInt | None = None
    """Most files one batch may take."""
    max_rows_per_trigger: PositiveInt | None = None
    """About the most rows one batch may take: a file is read whole. One of the two is required."""
    skip: tuple[Literal["overwrites", "deletes"], ...] = ()
    """Pass over commits that change rows instead of stopping at them: what they took out of the table stays in the
    sink, and what an overwrite put in never comes."""

    @model_validator(mode="after")
    def _beginning_and_caps(self) -> Self:
        beginnings = ("starting", "starting_snapshot", "starting_timestamp")
        _one_beginning(self, beginnings)
        _capped(self, ("max_files_per_trigger", "max_rows_per_trigger"))
        return self


class DeltaSource(SpecModel):
    """A Delta table: its rows as they stand when the stream begins, then what is appended, commit by commit."""

    table: TableName
    """The table; its columns are the record's, position columns of the stream that landed it included."""
    starting_version: Annotated[Int, Field(ge=0, le=2**63 - 1)] | None = None
    """Begin with the commit of this version instead; what stood in the table before it never comes."""
    max_files_per_trigger: PositiveInt | None = None
    """Most files one batch may take."""
    max_bytes_per_trigger: Bytes | None = None
    """About the most one batch may take: a file is read whole. One of the two is required."""
    skip_changes: Bool = False
    """Pass over commits that change rows instead of stopping at them: what they took out of the table stays in the
    sink, and what they put in never comes."""

    @model_validator(mode="after")
    def _is_capped(self) -> Self:
        _capped(self, ("max_files_per_trigger", "max_bytes_per_trigger"))
        return self


def _one_beginning(source: SpecModel, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(source, key) is not None]
    if len(given) > 1:
        raise KeysProblem(f"{' and '.join(given)}: a stream begins at one place; keep one of them", *given[1:])


def _capped(source: SpecModel, keys: tuple[str, ...]) -> None:
    if all(getattr(source, key) is None for key in keys):
        raise KeysProblem(
            f"{' or '.join(keys)} is required: the first batch after an outage is otherwise all of it", *keys
        )
