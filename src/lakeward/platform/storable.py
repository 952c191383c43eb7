"""Text sanitizing for PostgreSQL, which cannot store a NUL, in text or JSONB, or half of a surrogate pair. Pure.

Texts of the registry quote records, logs and errors of other software, which may contain either.
"""

from __future__ import annotations

import re
from typing import Any

_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(value: Any) -> Any:
    """The value with such characters escaped (`\\u0000`), in a text or anywhere in mappings and lists."""
    if isinstance(value, str):
        return _NOT_STORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, tuple):
        return tuple(storable(item) for item in value)
    return value
