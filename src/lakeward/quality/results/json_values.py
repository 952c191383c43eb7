"""Converts values of rows and results to JSON that PostgreSQL accepts, cut to a size that can be shown. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakeward.platform.storable import storable
from lakeward.quality.verdicts.verdict import Check
from lakeward.telemetry.mask import MASK

LONGEST = 200  # characters of one value
MOST = 20  # items of one list


def plain(value: Any) -> Any:
    """`value` as JSON data: NaN and infinities as text, bytes as hex, long text cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        clean: str = storable(value)
        return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return plain(bytes(value).hex())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "asDict"):  # a Spark Row inside a row: a struct
        return plain(value.asDict())
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        return [plain(item) for item in items[:MOST]] + (["…"] if len(items) > MOST else [])
    if hasattr(value, "item"):  # numpy's scalars
        return plain(value.item())
    return plain(str(value))


def finite(value: Any) -> Any:
    """`value` with NaN and infinities as text, else unchanged: arguments of a suite, which YAML reads from `1e400`."""
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def sentence(text: str, longest: int = 300) -> str:
    """The first line of an engine's message, cut to the length of a log line; of a Python worker's error its cause,
    and of a call to the Spark Connect server that failed its details."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    first = lines[0] if lines else "no message"
    if _WORKER in first:
        first = _raised(text) or first
    if call := _CALL.search(text):
        first = f"a call to the Spark Connect server failed ({call[1]}): {call[2] or 'no details'}"
    return first if len(first) <= longest else first[: longest - 1] + "…"


_CALL = re.compile(
    r"^<_\w*RpcError of RPC that terminated with:\s*status = StatusCode\.(\w+)\s*details = \"(.*)\"\s*$", re.MULTILINE
)
_WORKER = "exception was thrown from the Python worker"
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)?(?:: .*)?$")


def _raised(text: str) -> str:
    """The error that a stack trace of Python ends with; empty if the text has none."""
    _, _, trace = text.partition("Traceback (most recent call last):")
    return next((line.strip() for line in trace.splitlines() if line[:1].strip() and _EXCEPTION.match(line)), "")


def masked(checks: Iterable[Check], columns: Collection[str]) -> list[Check]:
    """The checks with the values of these columns masked, in sample rows and observed values. Nulls stay nulls."""
    hidden = {column.lower() for column in columns}
    return [_masked(check, hidden) for check in checks] if hidden else list(checks)


def _masked(check: Check, hidden: set[str]) -> Check:
    sample = tuple(_row(row, hidden) for row in check.sample)
    named = (check.kwargs.get(key) for key in ("column", "column_A", "column_B"))
    about = {str(each).strip("`").lower() for each in named}
    # Without a count of failing rows the observed value may be a value of the column, e.g. a maximum.
    is_value = check.observed is not None and check.unexpected_count is None and bool(about & hidden)
    return replace(check, sample=sample, observed=MASK if is_value else check.observed)


def _row(row: Any, hidden: set[str]) -> Any:
    if not isinstance(row, dict):
        return MASK if row is not None else None
    return {name: MASK if name.lower() in hidden and value is not None else value for name, value in row.items()}
