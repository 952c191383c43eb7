"""A suite of expectations: `expectations/<namespace>.<table>.yaml`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from lakeward.spec.model.base import Bool, SpecModel, Text
from lakeward.spec.model.table_names import KnownCatalogs, TableName
from lakeward.spec.model.types import Duration, ExpectationType, Span
from lakeward.spec.sql.names import with_suffix, without_catalog

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(value: Any) -> Any:
    """Refuse a number, which would be read as seconds since 1970."""
    if isinstance(value, date) or (isinstance(value, str) and _DAY.fullmatch(value)):
        return value
    raise ValueError("this must be a day: 2026-12-31")


def _days(value: Duration) -> Duration:
    """Refuse small ages: the age counts from the commit of a snapshot, which may be a day old already."""
    if value < Duration("2d"):
        raise ValueError("the tag of a day is kept for 2d at least, e.g. 7d")
    return value


def _not_ours(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse the key below which an export keeps Lakeward's own keys."""
    if "lakeward" in value:
        raise ValueError("this key of meta belongs to Lakeward: give yours another name")
    return value


Meta = Annotated[dict[str, Any], Field(min_length=1), AfterValidator(_not_ours)]


class Expectation(SpecModel):
    """One expectation of Great Expectations, and the consequence of its failure."""

    type: ExpectationType
    """The expectation's name in Great Expectations, e.g. `expect_column_values_to_not_be_null`."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Literal["critical", "warning", "info"] = "warning"
    on_fail: Literal["record", "warn", "hold", "quarantine"] = "record"
    """`record` it, `warn` people, `hold` the verified branch, move rows to `quarantine`."""
    scope: Literal["increment", "window", "table"] = "increment"
    """The rows since the last check, a recent window, or the whole table."""
    why: Text | None = None
    """What breaks downstream when the expectation fails; shown to the person on call."""
    waive_until: Annotated[date, BeforeValidator(_day)] | None = None
    """Through this day a failure is shown and does not hold `verified`."""
    meta: Meta | None = None
    """Free metadata; imported from and exported to Great Expectations, not used by Lakeward."""

    @field_validator("kwargs")
    @classmethod
    def _tables(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Names of other tables without the lake's catalog, as everywhere: the id of a check has one spelling."""
        context: KnownCatalogs | None = info.context
        named = {key: value[key] for key in ("reference", "other") if isinstance(value.get(key), str)}
        if context is None or not named:
            return value
        return value | {key: without_catalog(name, context["catalog"]) for key, name in named.items()}

    @property
    def id(self) -> str:
        """Id of the check: hash of the assertion, 12 hex digits; does not change with order or wording."""
        asserted = json.dumps([self.type, self.kwargs], sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(asserted.encode()).hexdigest()[:12]


class SuiteLimits(SpecModel):
    """Limits that open an incident although no check failed."""

    verification_lag: Span = Duration("30m")
    """Time within which landed rows must be verified or held by a check."""


class Suite(SpecModel):
    """A suite: the expectations of a table."""

    removed: ClassVar[Mapping[str, str]] = {
        "advisory": "removed in 0.2, streams no longer count the rows that checks will call failing"
    }

    table: TableName
    owner: Text
    meta: Meta | None = None
    """As with each expectation."""
    mask: tuple[Text, ...] = ()
    """Columns whose values must not appear in sample rows, logs or messages, e.g. `[email]`."""
    pointer_table: Bool | None = None
    """Maintain a pointer table `<table>__verified` for engines that cannot read a branch."""
    limits: SuiteLimits | None = None
    """Limits on how late a proof may be."""
    audit_tags: Annotated[Duration, AfterValidator(_days)] | None = None
    """Retention of daily tags `verified-2026-03-01` of the state verified at the end of each day (UTC), e.g. `7d`."""
    expectations: Annotated[tuple[Expectation, ...], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """Hash of the whole suite, stored with every result."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()


POINTER_OF = "lakeward.verified-of"
"""Property of a pointer table: the table whose verified state it shows."""


def pointer_name(table: str) -> str:
    """The pointer table's name."""
    return with_suffix(table, "__verified")
