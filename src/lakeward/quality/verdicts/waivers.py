"""Which failures are excused now, by the suite's `waive_until` or by a person's waiver. Pure.

An excused failure is shown everywhere and does not hold `verified`: the run's verdict is `warn`. When the time of a
waiver is over the failure counts again, and people are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from lakeward.platform.errors import SpecError
from lakeward.platform.text import minute
from lakeward.registry.waivers import Waiver
from lakeward.spec.model.suite import Expectation, Suite
from lakeward.spec.read.problems import nearest


@dataclass(frozen=True)
class ActiveWaiver:
    """Why a failure does not hold the table.

    Attributes:
        until: UTC; from then on it counts again.
        author: a person, or the suite's file.
        reason: what the person said; empty for a suite's own.
    """

    until: datetime
    author: str
    reason: str = ""

    @property
    def text(self) -> str:
        """A clause: `waived until 2026-12-31 00:00 UTC by ada: the feed is being repaired`."""
        told = f"waived until {minute(self.until)} by {self.author}"
        return told + (f": {self.reason}" if self.reason else "")

    def document(self) -> dict[str, str]:
        """As JSON data."""
        return {"until": self.until.isoformat(), "author": self.author, "reason": self.reason}

    @classmethod
    def of(cls, document: Mapping[str, str]) -> ActiveWaiver:
        """What `document` wrote."""
        return cls(datetime.fromisoformat(document["until"]), document["author"], document["reason"])


def ids(suite: Suite) -> list[str]:
    """The ids of a suite's checks, in order: the hash of what is asserted, told apart by a number where it asserts the
    same twice."""
    found: list[str] = []
    seen: dict[str, int] = {}
    for each in suite.expectations:
        count = seen[each.id] = seen.get(each.id, 0) + 1
        found.append(each.id if count == 1 else f"{each.id}-{count}")
    return found


def excuses(suite: Suite, recorded: Sequence[Waiver], now: datetime) -> dict[str, ActiveWaiver]:
    """The checks excused now, by id; of two excuses the one that lasts longer.

    Args:
        recorded: people's waivers of this table that are in force.
        now: UTC; the suite's own are judged by it.
    """
    found: dict[str, ActiveWaiver] = {}
    checks = ids(suite)
    for name, each in zip(checks, suite.expectations, strict=True):
        if each.waive_until is not None and now < _end_of(each.waive_until):
            found[name] = ActiveWaiver(_end_of(each.waive_until), f"expectations/{suite.table}.yaml")
    for waiver in recorded:
        known = found.get(waiver.check)
        if waiver.check not in checks:
            continue  # the suite asserts something else by now
        if known is None or known.until < waiver.until:
            found[waiver.check] = ActiveWaiver(waiver.until, waiver.author, waiver.reason)
    return found


def choose(suite: Suite, wanted: str) -> tuple[str, str]:
    """The id and the name of the check a person means: its id, the beginning of it, or its name.

    Raises:
        SpecError: none, or more than one is meant; names those there are.
    """
    named = dict(zip(ids(suite), map(name_of, suite.expectations), strict=True))
    short = wanted.removeprefix("expect_")
    found = [key for key, name in named.items() if wanted == key or short in (name, name.split("(")[0])]
    if not found and len(wanted) >= 4:
        found = [key for key in named if key.startswith(wanted)]
    if len(found) == 1:
        return found[0], named[found[0]]
    listed = "; ".join(f"{key} {name}" for key, name in named.items() if not found or key in found)
    close = None if found else nearest(short, list(named.values()))
    raise SpecError(
        f"{wanted} is {'more than one check' if found else 'no check'} of expectations/{suite.table}.yaml",
        why=f"{f'did you mean {close}? ' if close else ''}checks: {listed}",
        next=f"lakeward quality show {suite.table}   shows the ids of its checks",
        code="LW-5026",
    )


def name_of(expectation: Expectation) -> str:
    """`column_values_to_not_be_null(carrier)`."""
    return named(expectation.type, expectation.kwargs)


def named(kind: str, kwargs: Mapping[str, object]) -> str:
    """An expectation with the columns it is about, for people."""
    columns = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    listed = kwargs.get("column_list")
    columns = columns or (list(listed) if isinstance(listed, list | tuple) else [])
    return f"{kind.removeprefix('expect_')}({', '.join(map(str, columns))})"


def _end_of(day: date) -> datetime:
    """A waiver holds through its day."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)
