"""From the states of checks to the verdict of a run. Pure.

The effect of a failure is the stronger one of its severity and its `on_fail`: a critical failure always holds, an info
failure can be made to hold. An error is never a pass: the result is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from lakeward.quality.verdicts.waivers import ActiveWaiver


class State(StrEnum):
    """State of a check's result (contract)."""

    PASS = "pass"  # noqa: S105 - the word of the contract, not a password
    FAIL = "fail"
    ERROR = "error"
    SKIPPED = "skipped"


class Verdict(StrEnum):
    """Verdict of a run (contract)."""

    PASS = "pass"  # noqa: S105 - the word of the contract, not a password
    WARN = "warn"
    HOLD = "hold"
    ERROR = "error"

    @property
    def publishes(self) -> bool:
        """Whether `verified` moves to the checked snapshot."""
        return self in (Verdict.PASS, Verdict.WARN)


class Effect(IntEnum):
    """Effect of a failed check, weakest first."""

    RECORD = 0
    WARN = 1
    HOLD = 2


_OF_SEVERITY = {"info": Effect.RECORD, "warning": Effect.WARN, "critical": Effect.HOLD}
# Rows are quarantined after the run (`quarantine_policy`); until then their failure holds.
_OF_ON_FAIL = {"record": Effect.RECORD, "warn": Effect.WARN, "hold": Effect.HOLD, "quarantine": Effect.HOLD}


@dataclass(frozen=True)
class Check:
    """One check's result.

    Attributes:
        id: stable when the suite is reordered.
        expectation, kwargs, severity, on_fail, scope, why: as in the suite.
        state: its state.
        excuse: the waiver in force; None if a failure holds the table.
        observed: the value Great Expectations reports, if any.
        rows: number of rows checked, if known.
        unexpected_count: number of failing rows, for a check of rows.
        sample: up to `gx.SAMPLE` whole failing rows, as JSON data.
        error: the error, for state `error`; why no row was read, for `skipped`.
        by: how it was decided: by `metadata`, by `rows` in the common pass, or by `stock` Great Expectations.
    """

    id: str
    expectation: str
    severity: str
    state: State
    kwargs: dict[str, object] = field(default_factory=dict)
    on_fail: str = "record"
    scope: str = "increment"
    why: str | None = None
    excuse: ActiveWaiver | None = None
    observed: Any = None
    rows: int | None = None
    unexpected_count: int | None = None
    sample: tuple[dict[str, object], ...] = ()
    error: str | None = None
    by: str | None = None

    @property
    def waived(self) -> bool:
        """Whether it is waived."""
        return self.excuse is not None

    @property
    def effect(self) -> Effect:
        """The effect of its failure. A waived failure does not hold; the verdict is then `warn`."""
        own = self.own_effect
        return min(own, Effect.WARN) if self.waived else own

    @property
    def own_effect(self) -> Effect:
        """The effect of its failure without the waiver."""
        return max(_OF_SEVERITY[self.severity], _OF_ON_FAIL[self.on_fail])


def verdict(checks: Iterable[Check]) -> Verdict:
    """The run's verdict. A waived check never holds, not even with an error; the verdict is then `warn`."""
    bad = [check for check in checks if check.state in (State.FAIL, State.ERROR)]
    if any(check.state is State.ERROR and not check.waived for check in bad):
        return Verdict.ERROR
    worst = max((check.effect for check in bad), default=Effect.RECORD)
    return {Effect.HOLD: Verdict.HOLD, Effect.WARN: Verdict.WARN, Effect.RECORD: Verdict.PASS}[worst]
