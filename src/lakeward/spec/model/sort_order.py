"""How the rows of a partition that nobody writes to any more are ordered, in the words of Iceberg's own procedure."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from lakeward.spec.model.types import Written

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_KEY = rf"{_NAME}(?: +(?:ASC|DESC|asc|desc))?(?: +(?:NULLS +(?:FIRST|LAST)|nulls +(?:first|last)))?"
_NAMES = rf"{_NAME}(?: *, *{_NAME})*"


class SortOrder(Written):
    """An order of rows: `carrier, ts DESC NULLS LAST`, or `zorder(origin, dest)`."""

    pattern = re.compile(rf"(?:zorder|ZORDER) *\( *{_NAMES} *\)|{_KEY}(?: *, *{_KEY})*")
    wanted = "an order is columns, 'carrier, ts DESC NULLS LAST', or 'zorder(origin, dest)'"
    examples: ClassVar[list[str]] = ["carrier, ts DESC", "zorder(origin, dest)"]

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        named = written.columns
        twice = next((each for each in named if named.count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} stands in the order twice")
        return written

    @property
    def zorder(self) -> bool:
        """Whether the columns count alike: a filter on any of them finds few files."""
        return "(" in self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, the most significant first."""
        inner = self[self.index("(") + 1 : -1] if self.zorder else str(self)
        return tuple(each.split()[0] for each in inner.split(","))

    @property
    def iceberg(self) -> str:
        """The order as `rewrite_data_files` takes it: it wants each key's direction and place of nulls said."""
        return f"zorder({', '.join(self.columns)})" if self.zorder else ", ".join(map(_whole, self.split(",")))


def _whole(key: str) -> str:
    name, *rest = key.split()
    said = [each.upper() for each in rest]
    direction = "DESC" if "DESC" in said else "ASC"
    nulls = said[-1] if "NULLS" in said else ("LAST" if direction == "DESC" else "FIRST")  # Spark's own places
    return f"{name} {direction} NULLS {nulls}"
