"""From the states of single checks to what happens with `verified`. Pure.

The effect of a failure is the stronger of what its severity says and what `on_fail` asks for: a critical failure always
holds, an info failure can be made to hold. An engine error is never a pass: nothing is known then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from lakeward.quality.verdicts.waivers import ActiveWaiver


class State(StrEnum):
    """What a check found (contract)."""

    PASS = "pass"  # noqa: S105 - the word of the contract, not a password
    FAIL = "fail"
    ERROR = "error"
    SKIPPED = "skipped"


class Verdict(StrEnum):
    """What a run decided (contract)."""

    PASS = "pass"  # noqa: S105 - the word of the contract, not a password
    WARN = "warn"
    HOLD = "hold"
    ERROR = "error"

    @property
    def publishes(self) -> bool:
        """Whether `verified` moves to the checked snapshot."""
        return self in (Verdict.PASS, Verdict.WARN)


class Effect(IntEnum):
    """What a failed check does, weakest first."""

    RECORD = 0
    WARN = 1
    HOLD = 2


_OF_SEVERITY = {"info": Effect.RECORD, "warning": Effect.WARN, "critical": Effect.HOLD}
# Rows go to quarantine after the run (`quarantine_policy`): until they have, their failure holds.
_OF_ON_FAIL = {"record": Effect.RECORD, "warn": Effect.WARN, "hold": Effect.HOLD, "quarantine": Effect.HOLD}


@dataclass(frozen=True)
class Check:
    """One check's result.

    Attributes:
        id: stable over reorderings of the suite.
        expectation, kwargs, severity, on_fail, scope, why: as the suite has them.
        state: what was found.
        excuse: why a failure does not hold the table today; None when it does.
        observed: the value Great Expectations reports, where it reports one.
        rows: rows looked at, where known.
        unexpected_count: rows that fail, where the check is about rows.
        sample: up to `gx.SAMPLE` whole failing rows, as JSON data.
        error: why there is no answer, for state `error`; why nothing was read, for `skipped`.
        by: what decided it: `metadata` alone, `rows` in the common pass, or `stock` Great Expectations by itself.
    """

    id: str
    expectation: str
    severity: str
    state: State
    kwargs: dict[str, Any] = field(default_factory=dict)
    on_fail: str = "record"
    scope: str = "increment"
    why: str | None = None
    excuse: ActiveWaiver | None = None
    observed: Any = None
    rows: int | None = None
    unexpected_count: int | None = None
    sample: tuple[dict[str, Any], ...] = ()
    error: str | None = None
    by: str | None = None

    @property
    def waived(self) -> bool:
        """Whether its failure is excused."""
        return self.excuse is not None

    @property
    def effect(self) -> Effect:
        """What its failure does: an excused one holds nothing, and what is published is marked."""
        own = self.own_effect
        return min(own, Effect.WARN) if self.waived else own

    @property
    def own_effect(self) -> Effect:
        """What its failure would do if nobody excused it."""
        return max(_OF_SEVERITY[self.severity], _OF_ON_FAIL[self.on_fail])


def verdict(checks: Iterable[Check]) -> Verdict:
    """The run's verdict. A waived check holds nothing, not even when it could not be computed: what is published then
    is marked."""
    bad = [check for check in checks if check.state in (State.FAIL, State.ERROR)]
    if any(check.state is State.ERROR and not check.waived for check in bad):
        return Verdict.ERROR
    worst = max((check.effect for check in bad), default=Effect.RECORD)
    return {Effect.HOLD: Verdict.HOLD, Effect.WARN: Verdict.WARN, Effect.RECORD: Verdict.PASS}[worst]
