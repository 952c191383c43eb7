"""Which checks of a suite a stream can count by while it lands rows, and why it cannot by the others. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lakeward.quality.verdicts.waivers import ids, named
from lakeward.spec.model.suite import Expectation, Suite

_ROWS = frozenset({"mostly", "row_condition", "condition_parser"})
_BETWEEN = frozenset({"column", "min_value", "max_value", "strict_min", "strict_max"}) | _ROWS
_PAIR = frozenset({"column_A", "column_B", "ignore_row_if"}) | _ROWS
TAKES: Mapping[str, frozenset[str]] = {
    "expect_column_values_to_not_be_null": _ROWS | {"column"},
    "expect_column_values_to_be_null": _ROWS | {"column"},
    "expect_column_values_to_be_between": _BETWEEN,
    "expect_column_values_to_be_in_set": _ROWS | {"column", "value_set"},
    "expect_column_values_to_not_be_in_set": _ROWS | {"column", "value_set"},
    "expect_column_values_to_match_regex": _ROWS | {"column", "regex"},
    "expect_column_values_to_not_match_regex": _ROWS | {"column", "regex"},
    "expect_column_value_lengths_to_equal": _ROWS | {"column", "value"},
    "expect_column_value_lengths_to_be_between": _BETWEEN,
    "expect_column_pair_values_a_to_be_greater_than_b": _PAIR | {"or_equal"},
    "expect_column_pair_values_to_be_equal": _PAIR,
}
"""Expectation -> the arguments that `conditions` understands."""


@dataclass(frozen=True)
class Counted:
    """A check that is counted by.

    Attributes:
        check: its id.
        type, kwargs: what it asserts, as JSON data.
        severity: as the suite has it.
    """

    check: str
    type: str
    kwargs: Mapping[str, Any]
    severity: str

    @property
    def name(self) -> str:
        """For people."""
        return named(self.type, self.kwargs)

    @property
    def mostly(self) -> float:
        """The share of the rows looked at that must hold."""
        return float(self.kwargs.get("mostly", 1))


@dataclass(frozen=True)
class Counters:
    """What the stream of a table counts by.

    Attributes:
        counted: the checks, in the suite's order.
        left: id of each other check -> why it is not.
    """

    counted: Sequence[Counted] = ()
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As JSON, for `of`."""
        return json.dumps({"counted": [asdict(each) for each in self.counted], "left": dict(self.left)}, sort_keys=True)

    @property
    def digest(self) -> str:
        """Another one when anything of it is another."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def of(text: str) -> Counters:
    """What `Counters.text` wrote, in this version or the next."""
    found = json.loads(text)
    names = [each.name for each in fields(Counted)]
    return Counters(tuple(Counted(*(each[name] for name in names)) for each in found["counted"]), found["left"])


def counters(suite: Suite) -> Counters:
    """What streams count by for a suite; nothing where it says `advisory: false`."""
    if suite.advisory is False:
        return Counters()
    counted, left = [], {}
    for name, each in zip(ids(suite), suite.expectations, strict=True):
        why = _not_counted(each)
        if why is not None:
            left[name] = why
            continue
        kwargs = each.model_dump(mode="json")["kwargs"]
        counted.append(Counted(name, str(each.type), kwargs, each.severity))
    return Counters(tuple(counted), left)


def _not_counted(each: Expectation) -> str | None:
    """Why no stream counts by an expectation, as a clause."""
    known = TAKES.get(str(each.type))
    if known is None:
        return "it is not decided row by row, or is not among those that are counted"
    unknown = sorted(key for key, value in each.kwargs.items() if key not in known and value is not None)
    if unknown:
        return f"{', '.join(unknown)} is not known here"
    mostly = each.kwargs.get("mostly", 1)
    if not isinstance(mostly, int | float) or any(isinstance(value, dict) for value in each.kwargs.values()):
        return "its arguments are filled in by Great Expectations"
    if each.kwargs.get("row_condition") is not None and each.kwargs.get("condition_parser") != "spark":
        return "its row_condition is not Spark SQL (condition_parser: spark)"
    if mostly < 1 and each.scope != "increment":
        return f"mostly of scope {each.scope} is a share of rows that landed before, too"
    return None
