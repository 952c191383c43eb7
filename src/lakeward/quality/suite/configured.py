"""The configured checks of a run: expectation, scope and waiver of each check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.quality.arguments.expectation import Settled
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.quality.verdicts.waivers import ActiveWaiver, ids
from lakeward.spec.model.suite import Expectation, Suite


@dataclass(frozen=True)
class ConfiguredCheck:
    """One check of one run.

    Attributes:
        id: stable id: the hash of the assertion, with a number if a suite asserts it twice.
        expectation: as in the suite.
        scope: the rows it reads in this run.
        excuse: the waiver in force; None if a failure holds the table.
        file, number: the suite's file, and the place of the expectation in its list, from 0.
        settled: its arguments against the columns of the rows, once they are known.
    """

    id: str
    expectation: Expectation
    scope: str
    excuse: ActiveWaiver | None = None
    file: Path | None = None
    number: int = 0
    settled: Settled | None = None

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments to compute with."""
        return dict(self.expectation.kwargs) if self.settled is None else self.settled.kwargs

    @property
    def exact(self) -> dict[str, Any]:
        """Arguments that Great Expectations' model would round, as they are."""
        return {} if self.settled is None else self.settled.exact

    @property
    def strict(self) -> bool:
        """Whether no row may fail."""
        mostly = self.expectation.kwargs.get("mostly", 1)
        return isinstance(mostly, int | float) and mostly >= 1

    def blank(self, state: State, error: str | None = None) -> Check:
        """A result without findings."""
        configured = self.expectation
        return Check(
            id=self.id,
            expectation=configured.type,
            severity=configured.severity,
            state=state,
            kwargs=dict(configured.kwargs),
            on_fail=configured.on_fail,
            scope=self.scope,
            why=configured.why,
            excuse=self.excuse,
            error=error,
        )


def configure(
    suite: Suite, scope: str | None, excused: Mapping[str, ActiveWaiver], file: Path | None = None
) -> list[ConfiguredCheck]:
    """The configured checks of a run; `scope` overrides the scope of every check, `excused` are the waived ones, `file`
    is the suite's."""
    return [
        ConfiguredCheck(name, each, scope or each.scope, excused.get(name), file, number)
        for number, (name, each) in enumerate(zip(ids(suite), suite.expectations, strict=True))
    ]


def by_table(suites: Mapping[str, Suite] | list[Suite]) -> dict[str, Suite]:
    """Suites by their table."""
    values = suites.values() if isinstance(suites, Mapping) else suites
    return {str(each.table): each for each in values}
