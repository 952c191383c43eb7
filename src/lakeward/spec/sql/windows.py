"""The event-time window that a transform groups by, found in its SQL. Pure.

Only windows that can be recomputed for a time range: one SELECT over the source, grouped by one tumbling or sliding
window, with the window's start or end among its columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlglot import exp

from lakeward.spec.sql.statements import DIALECT, SqlProblem, parse_select

_LENGTH = re.compile(
    r"\s*(?:interval\s+)?'?(\d+)'?\s*'?(millisecond|second|minute|hour|day|week)s?'?\s*", re.IGNORECASE
)


class NoWindow(ValueError):
    """Raised with the reason why no window is found."""


@dataclass(frozen=True)
class Window:
    """A window of a transform.

    Attributes:
        column: the column of the result that holds one edge of it.
        edge: which: `start` or `end`.
        length: from its start to its end.
    """

    column: str
    edge: str
    length: timedelta

    def within(self, low: datetime, high: datetime) -> tuple[datetime, datetime]:
        """The first and last value (inclusive) of `column` for windows completely within `low` to `high`."""
        if self.edge == "start":
            return low, high - self.length
        return low + self.length, high


def window_of(sql: str) -> Window:
    """The window of a transform.

    Raises:
        NoWindow: no window can be recomputed for a range.
    """
    try:
        tree = parse_select(sql)
    except SqlProblem as error:
        raise NoWindow(f"its SQL cannot be read here: {error}") from None
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Select))) > 1 or tree.args.get("having"):
        raise NoWindow("its SQL is more than one SELECT with a GROUP BY")
    group = tree.args.get("group")
    calls = [key for key in (group.expressions if group else ()) if _name(key) in ("window", "session_window")]
    if len(calls) != 1:
        raise NoWindow("it does not group by one window(..)")
    if _name(calls[0]) == "session_window":
        raise NoWindow("a session has no fixed length: a late row may join two that lie outside of the range")
    arguments = calls[0].expressions or calls[0].args.values()
    given = [argument for argument in arguments if isinstance(argument, exp.Expression)]
    match = _LENGTH.fullmatch(given[1].sql(dialect=DIALECT).strip().strip("'")) if len(given) > 1 else None
    if match is None:
        raise NoWindow("the length of its window is not a plain one such as '1 hour'")
    length = timedelta(**{f"{match[2].lower()}s": int(match[1])})
    for column in tree.expressions:
        inner = column.unalias()
        if isinstance(inner, exp.Column) and inner.table.lower() == "window" and inner.name.lower() in ("start", "end"):
            return Window(column.alias_or_name, inner.name.lower(), length)
    raise NoWindow("neither window.start nor window.end is a column of its result")


def _name(call: exp.Expression) -> str:
    return str(call.name if isinstance(call, exp.Anonymous) else call.key).lower()
