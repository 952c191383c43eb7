"""JSON bodies of the API: the documents of `-o json`, with integers that a browser can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum
from math import isfinite

from lakeward.platform.text import rfc3339

EXACT = 2**53 - 1
"""The largest integer that JavaScript reads exactly. A larger one, e.g. a snapshot id, is sent as text."""


def encode(value: object) -> bytes:
    """The value as JSON. Times are RFC 3339 in UTC; numbers that JSON or JavaScript cannot hold are text."""
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return str(value)
