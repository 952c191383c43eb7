"""The waivers in force: by a suite's `waive_until` or by a person. Pure.

A waived failure is shown everywhere and does not hold `verified`: the run's verdict is `warn`. After the end of the
waiver the failure counts again, and a message is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from lakeward.platform.errors import SpecError
from lakeward.platform.text import minute, word
from lakeward.registry.waivers import Waiver
from lakeward.spec.model.suite import Expectation, Suite
from lakeward.spec.read.problems import nearest


@dataclass(frozen=True)
class ActiveWaiver:
    """A waiver in force.

    Attributes:
        until: its end, UTC.
        author: a person, or the suite's file.
        reason: the person's reason; empty for a suite's own.
    """

    until: datetime
    author: str
    reason: str = ""

    @property
    def text(self) -> str:
        """A clause: `waived until 2026-12-31 00:00 UTC by ada: the feed is being repaired`."""
        clause = f"waived until {minute(self.until)} by {self.author}"
        return clause + (f": {self.reason}" if self.reason else "")

    def document(self) -> dict[str, str]:
        """As JSON data."""
        return {"until": self.until.isoformat(), "author": self.author, "reason": self.reason}

    @classmethod
    def of(cls, document: Mapping[str, str]) -> ActiveWaiver:
        """The waiver that `document` wrote."""
        return cls(datetime.fromisoformat(document["until"]), document["author"], document["reason"])


def ids(suite: Suite) -> list[str]:
    """The ids of a suite's checks, in order: the hash of the assertion, with a number if the suite asserts it twice."""
    found: list[str] = []
    seen: dict[str, int] = {}
    for expectation in suite.expectations:
        count = seen[expectation.id] = seen.get(expectation.id, 0) + 1
        found.append(expectation.id if count == 1 else f"{expectation.id}-{count}")
    return found


def excuses(suite: Suite, recorded: Sequence[Waiver], now: datetime) -> dict[str, ActiveWaiver]:
    """The waivers in force, by check id; of two waivers the one that lasts longer.

    Args:
        recorded: waivers of this table in the registry that are in force.
        now: UTC; decides which of the suite's waivers are in force.
    """
    found: dict[str, ActiveWaiver] = {}
    checks = ids(suite)
    for name, check in zip(checks, suite.expectations, strict=True):
        if check.waive_until is not None and now < _end_of(check.waive_until):
            found[name] = ActiveWaiver(_end_of(check.waive_until), f"expectations/{suite.table}.yaml")
    for waiver in recorded:
        known = found.get(waiver.check)
        if waiver.check not in checks:
            continue  # the check is no longer in the suite
        if known is None or known.until < waiver.until:
            found[waiver.check] = ActiveWaiver(waiver.until, waiver.author, waiver.reason)
    return found


def choose(suite: Suite, requested: str) -> tuple[str, str]:
    """The id and the name of the check that matches: by id, prefix of the id, or name.

    Raises:
        SpecError: no check matches, or more than one; lists the checks.
    """
    named = dict(zip(ids(suite), map(name_of, suite.expectations), strict=True))
    short = requested.removeprefix("expect_")
    found = [key for key, name in named.items() if requested == key or short in (name, name.split("(")[0])]
    if not found and len(requested) >= 4:
        found = [key for key in named if key.startswith(requested)]
    if len(found) == 1:
        return found[0], named[found[0]]
    listed = "; ".join(f"{key} {name}" for key, name in named.items() if not found or key in found)
    close = None if found else nearest(short, list(named.values()))
    raise SpecError(
        f"{requested} matches {'more than one check' if found else 'no check'} of expectations/{suite.table}.yaml",
        why=f"{f'Did you mean {close}? ' if close else ''}Checks: {listed}.",
        next=f"lakeward quality show {word(suite.table)}   shows the ids of its checks",
        code="LW-5026",
    )


def name_of(expectation: Expectation) -> str:
    """`column_values_to_not_be_null(carrier)`."""
    return named(expectation.type, expectation.kwargs)


def named(kind: str, kwargs: Mapping[str, object]) -> str:
    """An expectation with its columns, for people."""
    return f"{kind.removeprefix('expect_')}({', '.join(columns_of(kwargs))})"


def columns_of(kwargs: Mapping[str, object]) -> list[str]:
    """The columns that an expectation is about; none for one about the table."""
    columns = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    for key in ("column_list", "columns", "by"):  # the last two are those of Lakeward's own checks
        listed = kwargs.get(key)
        columns = columns or (list(listed) if isinstance(listed, list | tuple | Mapping) else [])
    return [str(column) for column in columns]


def _end_of(day: date) -> datetime:
    """A waiver holds through its day."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)
