"""What `on_fail: quarantine` does about a run that holds a table: which checks' failing rows go, or why none do. Pure.

A policy acts where a person would not have to look: everything that holds has it, and only few of the new rows fail.
Otherwise nothing is moved, the table stays held, and a person decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.quality.verdicts.verdict import State, Verdict
from lakeward.quality.verdicts.waivers import named

SHARE, FEW, MOST = 10, 10, 100_000
"""Of so many rows one may fail; so few may in any case; more than so many are never taken at once."""
LINE = "policy: "
"""How a line begins that tells what the policy does."""


@dataclass(frozen=True)
class Decided:
    """What the policy says of a held run.

    Attributes:
        checks: the ids of those whose failing rows go; none where a person decides.
        why: a clause for people: what goes, or why nothing does.
    """

    checks: tuple[str, ...]
    why: str


def too_many(number: int, of: int) -> str:
    """Why so many rows of so many are not moved without a person, as a clause; empty when they are."""
    if number <= min(MOST, max(FEW, of // SHARE)):
        return ""
    bound = f"{MOST:,}" if of // SHARE > MOST else f"one in {SHARE}"
    return f"{number:,} of {of:,} rows fail: more than {bound} is for a person to look at"


def decide(verdict: Verdict, checks: Sequence[Mapping[str, Any]], obstacle: str = "") -> Decided | None:
    """What the policy says of a run; None where there is none to be asked: nothing is held, or by other checks.

    Args:
        checks: as the contract's JSON of `quality run` has them.
        obstacle: why rows of this table cannot go aside, as a clause; empty where they can.
    """
    holding = [
        each
        for each in checks
        if verdict is Verdict.HOLD and each["state"] == State.FAIL and each.get("effect") == "hold"
    ]
    mine = [each for each in holding if each.get("on_fail") == "quarantine"]
    if not mine:
        return None
    why = next((f"{name(each)} holds too, and is for a person" for each in holding if each not in mine), "")
    for each in mine:
        if each.get("scope") != "increment":
            why = why or f"{name(each)} looks at rows that are proven, too (scope: {each.get('scope')})"
        if each["unexpected_count"] is None or not each.get("rows"):
            why = why or f"which rows fail {name(each)} cannot be told one by one"
    why = why or obstacle
    if not why:
        why = too_many(sum(each["unexpected_count"] for each in mine), max(each["rows"] for each in mine))
    if why:
        return Decided((), why)
    going = "; ".join(failing(each["unexpected_count"], name(each)) for each in mine)
    return Decided(tuple(str(each["id"]) for each in mine), f"{going} go to quarantine")


def rows(number: int) -> str:
    """`1 row`, `1,234 rows`."""
    return f"{number:,} row{'' if number == 1 else 's'}"


def failing(number: int, check: str) -> str:
    """`1 row that fails nulls(a)`."""
    return f"{rows(number)} that fail{'s' if number == 1 else ''} {check}"


def declined(why: str, table: str) -> str:
    """The line that says that a person decides."""
    return f"{LINE}no row was moved by on_fail: quarantine: {why}; lakeward quality quarantine {table} CHECK --dry-run"


def name(check: Mapping[str, Any]) -> str:
    """`column_values_to_not_be_null(carrier)`."""
    return named(str(check["expectation"]), check.get("kwargs") or {})
