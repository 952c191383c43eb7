"""The suites of a project, and what a run asks of each check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from lakeward.quality.verdict import Check, State, is_waived
from lakeward.spec.suite import Expectation, Suite


@dataclass(frozen=True)
class Asked:
    """One check of one run.

    Attributes:
        id: stable id; the hash of what is asserted, told apart by a number where a suite asserts it twice.
        expectation: as the suite has it.
        scope: what it reads in this run.
        waived: whether its failure is excused today.
    """

    id: str
    expectation: Expectation
    scope: str
    waived: bool

    @property
    def strict(self) -> bool:
        """Whether no row may fail."""
        mostly = self.expectation.kwargs.get("mostly", 1)
        return isinstance(mostly, int | float) and mostly >= 1

    def blank(self, state: State, error: str | None = None) -> Check:
        """A result without findings."""
        asked = self.expectation
        return Check(
            id=self.id,
            expectation=asked.type,
            severity=asked.severity,
            state=state,
            kwargs=dict(asked.kwargs),
            on_fail=asked.on_fail,
            scope=self.scope,
            why=asked.why,
            waive_until=asked.waive_until,
            waived=self.waived,
            error=error,
        )


def ask(suite: Suite, scope: str | None, today: date) -> list[Asked]:
    """What a run asks; `scope` overrides the scope of every check."""
    asked: list[Asked] = []
    seen: dict[str, int] = {}
    for each in suite.expectations:
        count = seen[each.id] = seen.get(each.id, 0) + 1
        name = each.id if count == 1 else f"{each.id}-{count}"
        asked.append(Asked(name, each, scope or each.scope, is_waived(each.waive_until, today)))
    return asked


def waived_ids(suite: Suite, today: date) -> frozenset[str]:
    """The checks excused today. When this changes, a held table is worth checking again."""
    return frozenset(each.id for each in ask(suite, None, today) if each.waived)


def by_table(suites: Mapping[str, Suite] | list[Suite]) -> dict[str, Suite]:
    """Suites by the table they are about."""
    values = suites.values() if isinstance(suites, Mapping) else suites
    return {str(each.table): each for each in values}
