"""A suite of expectations: `expectations/<namespace>.<table>.yaml`."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field

from lakeward.spec.model import SpecModel, Text
from lakeward.spec.types import ExpectationType, TableName


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
    waive_until: date | None = None
    """Until this day a failure is recorded and nothing else."""

    @property
    def id(self) -> str:
        """Stable over reorderings and rewordings: the hash of what is asserted, 12 hex digits."""
        asserted = json.dumps([self.type, self.kwargs], sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(asserted.encode()).hexdigest()[:12]


class Suite(SpecModel):
    """What must be true of a table."""

    table: TableName
    owner: Text
    expectations: Annotated[tuple[Expectation, ...], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """Hash of the whole suite, stored with every result."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()
