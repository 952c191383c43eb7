"""What is asked of a run, and whether its answer can be a proof. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeward.quality.engine.timeouts import PATIENCE_S

if TYPE_CHECKING:
    from lakeward.spec.model.suite import Suite

INCREMENT = "increment"
_REACH = ("increment", "window", "table")  # each looks at all the one before it does


@dataclass(frozen=True)
class Order:
    """What to check.

    Attributes:
        suites: by table.
        tables: these, whether due or not; None for every table with a suite that is due.
        scope: instead of each check's own.
        keep: how long results stay in the lake's table; None removes nothing.
        patience_s: how long checks that read the same rows may take together.
        now: when the run began, UTC; waivers and windows are judged by it.
        own_suite: False when a suite was handed in for this run: it proves nothing about the project's own, so
            `verified` stays where it is.
        upto: the snapshot the check ends with, of one table; None for the head.
    """

    suites: Mapping[str, Suite]
    tables: Sequence[str] | None = None
    scope: str | None = None
    own_suite: bool = True
    upto: int | None = None
    keep: timedelta | None = None
    patience_s: float = PATIENCE_S
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


def proves_nothing(order: Order, suite: Suite) -> str | None:
    """Why a passed run is no proof of the project's suite, as a clause; None when it is one."""
    if not order.own_suite:
        return "the suite was handed in for this run only"
    if order.scope is not None:
        narrowed = sum(_REACH.index(each.scope) > _REACH.index(order.scope) for each in suite.expectations)
        if narrowed:
            return f"{narrowed} checks of the suite look at more than --scope {order.scope}"
    return None
