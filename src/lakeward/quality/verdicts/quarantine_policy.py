"""The policy `on_fail: quarantine` for a held run: which checks' failing rows are quarantined, or why none are. Pure.

The policy acts only if every check that holds has it, and only few of the new rows fail. Otherwise no row is moved, the
table stays held, and a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.platform.text import word
from lakeward.quality.verdicts.verdict import State, Verdict
from lakeward.quality.verdicts.waivers import named

if TYPE_CHECKING:
    from lakeward.quality.results.records import CheckDocument

SHARE, FEW, MOST = 10, 10, 100_000
"""One row in SHARE may fail; FEW rows always may; more than MOST rows are never moved at once."""
LINE = "policy: "
"""Prefix of a line about the policy's decision."""


@dataclass(frozen=True)
class Decision:
    """The policy's decision about a held run.

    Attributes:
        checks: ids of the checks whose failing rows are quarantined; empty if a person decides.
        why: what is moved, or why nothing is, as a clause.
    """

    checks: tuple[str, ...]
    why: str


def too_many(number: int, of: int) -> str:
    """Why this number of failing rows needs a person's decision, as a clause; empty when it does not."""
    if number <= min(MOST, max(FEW, of // SHARE)):
        return ""
    bound = f"{MOST:,}" if of // SHARE > MOST else f"one in {SHARE}"
    return f"{number:,} of {of:,} rows fail: more than {bound} needs a person's decision"


def decide(verdict: Verdict, checks: Sequence[CheckDocument], obstacle: str = "") -> Decision | None:
    """The policy's decision; None if no check holds the table, or only checks without the policy do.

    Args:
        checks: in the contract's JSON form of `quality run`.
        obstacle: why rows of this table cannot be quarantined, as a clause; empty if they can.
    """
    holding = [
        check
        for check in checks
        if verdict is Verdict.HOLD and check["state"] == State.FAIL and check.get("effect") == "hold"
    ]
    candidates = [check for check in holding if check.get("on_fail") == "quarantine"]
    if not candidates:
        return None
    why = next(
        (f"{name(check)} holds too, and needs a person's decision" for check in holding if check not in candidates), ""
    )
    for each in candidates:
        if each.get("scope") != "increment":
            why = why or f"{name(each)} reads verified rows too (scope: {each.get('scope')})"
        if each["unexpected_count"] is None or not each.get("rows"):
            why = why or f"the rows that fail {name(each)} cannot be selected one by one"
    why = why or obstacle
    if not why:
        why = too_many(
            sum(check["unexpected_count"] or 0 for check in candidates),
            max(check.get("rows") or 0 for check in candidates),
        )
    if why:
        return Decision((), why)
    moved = "; ".join(failing(check["unexpected_count"] or 0, name(check)) for check in candidates)
    return Decision(tuple(str(check["id"]) for check in candidates), f"{moved} go to quarantine")


def rows(number: int) -> str:
    """`1 row`, `1,234 rows`."""
    return f"{number:,} row{'' if number == 1 else 's'}"


def failing(number: int, check: str) -> str:
    """`1 row that fails nulls(a)`."""
    return f"{rows(number)} that fail{'s' if number == 1 else ''} {check}"


def declined(why: str, table: str) -> str:
    """The line about a decision left to a person."""
    return f"{LINE}no row was moved by on_fail: quarantine: {why}; lakeward quality show {word(table)}"


def name(check: CheckDocument) -> str:
    """`column_values_to_not_be_null(carrier)`."""
    return named(str(check["expectation"]), check.get("kwargs") or {})
