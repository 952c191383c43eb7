"""Why Lakeward and stock Great Expectations, or stock on Spark and on pandas, differ on a cell of `gx_odd.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def why_of(row: Mapping[str, Any]) -> str:
    """The reason, as a clause; empty if nobody wrote one."""
    return str(row.get("words") or "")
