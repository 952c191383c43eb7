"""Tables of the lake as sources of a stream: their models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lakeward.spec.model.base import Bool, Int, KeysProblem, PositiveInt, PositiveLong, SpecModel
from lakeward.spec.model.table_names import TableName
from lakeward.spec.model.types import Bytes, Name


def moment(text: str) -> datetime:
    """A point in time out of RFC 3339, in UTC.

    Raises:
        ValueError: it is not one, or has no time zone.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("this is not a time; write it like 2026-11-01T06:00:00Z") from None
    if time.tzinfo is None:
        raise ValueError("this has no time zone; write it like 2026-11-01T06:00:00Z")
    return time.astimezone(UTC)


def _checked(text: str) -> str:
    moment(text)
    return text


Moment = Annotated[str, AfterValidator(_checked), Field(examples=["2026-11-01T06:00:00Z"])]


class IcebergSource(SpecModel):
    """Rows appended to an Iceberg table of the lake, commit by commit. Only the branch main is read."""

    table: TableName
    """The table; its columns are those of the records, including position columns of the stream that wrote it."""
    branch: Name | None = None
    """Refused: Spark's Iceberg source always reads main and ignores a branch."""
    starting: Literal["earliest", "latest"] | None = None
    """Where a stream without a position starts: at the table's first commit (default), which must still be in its
    history, or after its newest commit."""
    starting_snapshot: PositiveLong | None = None
    """Start with this snapshot instead; earlier commits are not read."""
    starting_timestamp: Moment | None = None
    """Start with the first snapshot committed at or after this time."""
    max_files_per_trigger: PositiveInt | None = None
    """Maximum number of files per batch."""
    max_rows_per_trigger: PositiveInt | None = None
    """Approximate maximum number of rows per batch (whole files are read). One of the two limits is required."""
    skip: tuple[Literal["overwrites", "deletes"], ...] = ()
    """Skip commits that change rows instead of stopping at them: rows they removed stay in the sink, and rows added by
    an overwrite are not read."""

    @model_validator(mode="after")
    def _beginning_and_caps(self) -> Self:
        beginnings = ("starting", "starting_snapshot", "starting_timestamp")
        _one_beginning(self, beginnings)
        _capped(self, ("max_files_per_trigger", "max_rows_per_trigger"))
        return self


class DeltaSource(SpecModel):
    """A Delta table: its current rows when the stream starts, then appended rows, commit by commit."""

    table: TableName
    """The table; its columns are those of the records, including position columns of the stream that wrote it."""
    starting_version: Annotated[Int, Field(ge=0, le=2**63 - 1)] | None = None
    """Start with the commit of this version instead; earlier rows are not read."""
    max_files_per_trigger: PositiveInt | None = None
    """Maximum number of files per batch."""
    max_bytes_per_trigger: Bytes | None = None
    """Approximate maximum size of a batch (whole files are read). One of the two limits is required."""
    skip_changes: Bool = False
    """Skip commits that change rows instead of stopping at them: rows they removed stay in the sink, and rows they
    added are not read."""

    @model_validator(mode="after")
    def _is_capped(self) -> Self:
        _capped(self, ("max_files_per_trigger", "max_bytes_per_trigger"))
        return self


def _one_beginning(source: SpecModel, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(source, key) is not None]
    if len(given) > 1:
        raise KeysProblem(f"{' and '.join(given)}: a stream has one starting point; keep one of them", *given[1:])


def _capped(source: SpecModel, keys: tuple[str, ...]) -> None:
    if all(getattr(source, key) is None for key in keys):
        raise KeysProblem(
            f"{' or '.join(keys)} is required: the first batch after an outage is otherwise all of it", *keys
        )
