"""Values of rows and results as JSON data that PostgreSQL takes, small enough to show. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakeward.platform.storable import storable

LONGEST = 200  # characters of one value
MOST = 20  # items of one list


def plain(value: Any) -> Any:
    """`value` as JSON data: NaN and infinities as text (JSON has none), bytes as hex, long text cut."""
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


def sentence(text: str, longest: int = 300) -> str:
    """The first line of an engine's message, short enough for a log line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    first = lines[0] if lines else "no message"
    return first if len(first) <= longest else first[: longest - 1] + "…"
