"""The order of a check run: what to check, and whether the result can be a proof. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.quality.engine.timeouts import PATIENCE_S, PLANNING_S

if TYPE_CHECKING:
    from lakeward.spec.model.suite import Suite

INCREMENT = "increment"
_REACH = ("increment", "window", "table")  # each includes the rows of the one before


@dataclass(frozen=True)
class RunOrder:
    """What to check.

    Attributes:
        suites: by table.
        tables: check these, due or not; None for every due table with a suite.
        scope: instead of each check's own.
        keep: retention of results in the lake's table; None removes nothing.
        patience_s: timeout of checks that read the same rows.
        planning_s: timeout of a plan (`checker.planning`).
        now: the start of the run, UTC; waivers and windows are evaluated at this time.
        own_suite: False when a suite was given for this run only: the run is then no proof of the project's suite, and
            `verified` does not move.
        invalid: table -> the problems of its suite, for a run without names: the table is an error of that run.
        upto: the last snapshot to check, for one table; None for the head.
        files: the file of each suite, for messages.
    """

    suites: Mapping[str, Suite]
    tables: Sequence[str] | None = None
    scope: str | None = None
    own_suite: bool = True
    upto: int | None = None
    invalid: Mapping[str, str] = field(default_factory=dict)
    keep: timedelta | None = None
    patience_s: float = PATIENCE_S
    planning_s: float = PLANNING_S
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    files: Mapping[str, Path] = field(default_factory=dict)


def proves_nothing(order: RunOrder, suite: Suite) -> str | None:
    """Why a passed run is no proof of the project's suite, as a clause; None when it is one."""
    if not order.own_suite:
        return "the suite was given for this run only"
    if order.scope is not None:
        narrowed = sum(
            _REACH.index(expectation.scope) > _REACH.index(order.scope) for expectation in suite.expectations
        )
        if narrowed:
            return f"{narrowed} checks of the suite read more rows than --scope {order.scope}"
    return None
