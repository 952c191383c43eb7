"""A suite of expectations: `expectations/<namespace>.<table>.yaml`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lakeward.spec.model.base import Bool, SpecModel, Text
from lakeward.spec.model.types import Duration, ExpectationType, Span, TableName

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(value: Any) -> Any:
    """A number would be read as seconds since 1970."""
    if isinstance(value, date) or (isinstance(value, str) and _DAY.fullmatch(value)):
        return value
    raise ValueError("this must be a day: 2026-12-31")


def _days(value: Duration) -> Duration:
    """The age counts from the commit of a snapshot that may have stood for a day already."""
    if value < Duration("2d"):
        raise ValueError("the tag of a day is kept for 2d at least, e.g. 7d")
    return value


def _not_ours(value: dict[str, Any]) -> dict[str, Any]:
    """An export keeps Lakeward's own keys below this one."""
    if "lakeward" in value:
        raise ValueError("this key of meta belongs to Lakeward: give yours another name")
    return value


Meta = Annotated[dict[str, Any], Field(min_length=1), AfterValidator(_not_ours)]


class Expectation(SpecModel):
    """One expectation of Great Expectations, and what its failure means here."""

    type: ExpectationType
    """The expectation's name in Great Expectations, e.g. `expect_column_values_to_not_be_null`."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Literal["critical", "warning", "info"] = "warning"
    on_fail: Literal["record", "warn", "hold", "quarantine"] = "record"
    """`record` it, `warn` people, `hold` the verified branch, move rows to `quarantine`."""
    scope: Literal["increment", "window", "table"] = "increment"
    """The rows since the last check, a recent window, or the whole table."""
    why: Text | None = None
    """What breaks downstream when this does not hold; shown to whoever is on call."""
    waive_until: Annotated[date, BeforeValidator(_day)] | None = None
    """Through this day a failure is shown and does not hold `verified`."""
    meta: Meta | None = None
    """Whatever else people or tools keep with it; carried from and to Great Expectations, read by nobody here."""

    @property
    def id(self) -> str:
        """Stable over reorderings and rewordings: the hash of what is asserted, 12 hex digits."""
        asserted = json.dumps([self.type, self.kwargs], sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(asserted.encode()).hexdigest()[:12]


class SuiteLimits(SpecModel):
    """When somebody is called although no check failed."""

    verification_lag: Span = Duration("30m")
    """What has landed is proven, or held for a reason, within this time."""


class Suite(SpecModel):
    """What must be true of a table."""

    removed: ClassVar[Mapping[str, str]] = {
        "advisory": "removed in 0.2, streams no longer count the rows that checks will call failing"
    }

    table: TableName
    owner: Text
    meta: Meta | None = None
    """As with each expectation."""
    mask: tuple[Text, ...] = ()
    """Columns whose values stand in no sample row, log or message, e.g. `[email]`."""
    pointer_table: Bool | None = None
    """Keep a table `<table>__verified` that shows what is proven, for engines that cannot name a branch."""
    limits: SuiteLimits | None = None
    """How late a proof may be."""
    audit_tags: Annotated[Duration, AfterValidator(_days)] | None = None
    """Keep a tag `verified-2026-03-01` of what was proven by the end of each day (UTC), for so long, e.g. `7d`."""
    expectations: Annotated[tuple[Expectation, ...], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """Hash of the whole suite, stored with every result."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()


POINTER_OF = "lakeward.verified-of"
"""Property of a pointer table: the table it shows what is proven of."""


def pointer_name(table: str) -> str:
    """The pointer table's name."""
    return f"{table}__verified"
