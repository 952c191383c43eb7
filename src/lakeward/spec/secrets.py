"""What must never stand in a spec: passwords, tokens, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lakeward.spec.document import Path_

_KEY = re.compile(
    r"(password|passwd|secret|credential|api[._-]?key|access[._-]?key|private[._-]?key|account[._-]?key"
    r"|sas[._-]?token|(auth|access|session|bearer|delegation)[._-]?token|jaas|ssl\.key|keystore\.key)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"((://|^)[^/\s:@]+:[^/\s@]+@\S"  # user:password@ in an address
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b"  # an AWS access key id
    r"|\b(password|pwd|secret)\s*=\s*[^\s;,'\"]{3,}[;,]?)",
    re.IGNORECASE,
)
_SHAPE = re.compile(
    r"\b(gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|xox[abp]-[A-Za-z0-9-]{10}|AKIA[0-9A-Z]{16}\b)"
    r"|\b[Bb]earer\s+eyJ|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|[;?&](password|passwd|pwd|secret|token)=[^\s;&'\"]{3}"  # in an address, not a comparison of columns
)
_BARE = re.compile(r"(^|[._-])(token|pwd|pass)$", re.IGNORECASE)
_PROSE = ("sql", "why", "rules", "key", "value", "delete_when")
_FREE_KEYS = ("spark", "options", "properties", "connections", "catalog")


def hides_secret(key: str) -> bool:
    """Whether a setting's name says that its value is a secret."""
    return bool(_KEY.search(key))


def looks_secret(value: object) -> bool:
    """Whether a value itself looks like a secret, whatever its name."""
    return isinstance(value, str) and bool(_VALUE.search(value) or _SHAPE.search(value))


def holds_token(text: str) -> bool:
    """Whether prose or SQL holds what can be nothing but a secret: there `password = 'x'` is only a comparison."""
    return bool(_SHAPE.search(text))


def secrets(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Paths of what looks like a secret: by the setting's name where names are free, by the value anywhere."""
    if isinstance(data, dict):
        for key, value in data.items():
            named = (hides_secret(key) or _BARE.search(key)) and not isinstance(value, dict | list)
            if named and any(part in _FREE_KEYS for part in path):
                yield (*path, key)
            else:
                yield from secrets(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from secrets(value, (*path, index))
    elif isinstance(data, str) and (holds_token if any(part in _PROSE for part in path) else looks_secret)(data):
        yield path
