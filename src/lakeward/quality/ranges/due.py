"""Which tables are worth checking now. Pure.

A table is due when its head is not proven. A head that was checked and held is not checked over and over: its rows are
the same, so is the answer, until the suite changes or a waiver begins or ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from lakeward.quality.ranges.range import Kind, Range
from lakeward.quality.verdicts.verdict import Verdict
from lakeward.spec.model.suite import Suite


@dataclass(frozen=True)
class Due:
    """Whether to check, and why (not), as a clause."""

    due: bool
    why: str


def decide(
    found: Range,
    suite: Suite,
    newest: Mapping[str, Any] | None,
    waived: Set[str] = frozenset(),
    waived_then: Set[str] = frozenset(),
) -> Due:
    """Whether the range is to be checked.

    Args:
        found: the range as it is now.
        suite: the table's suite.
        newest: the newest recorded run (columns of `registry.schema.verifications`), if any.
        waived, waived_then: the checks excused now, and in that run.
    """
    if found.kind is Kind.EMPTY or found.head is None:
        return Due(False, found.why)
    if newest is None or (newest["to_snapshot"], newest.get("to_commit")) != (found.head.id, found.head.commit):
        return Due(True, found.why)
    if newest["verdict"] != Verdict.HOLD:
        return Due(True, f"the last run ended with {newest['verdict']}")
    if newest["suite"] != suite.digest:
        return Due(True, "held, and the suite changed since")
    if waived != waived_then:
        return Due(True, "held, and a waiver began or ended since")
    return Due(False, f"held at snapshot {found.head.id} by run {newest['run']}, and nothing changed since")
