"""Secrets in specs: passwords, tokens and keys, which a spec must never contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lakeward.spec.read.text_positions import Path_
from lakeward.telemetry.mask import MASK

_KEY = re.compile(
    r"(password|passwd|secret|credential|api[._-]?key|access[._-]?key|private[._-]?key|account[._-]?key"
    r"|sas[._-]?token|(auth|access|session|bearer|delegation)[._-]?token|jaas|ssl\.key|keystore\.key)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"((://|^(?!(?:mailto|sips?|xmpp|acct):))[^/\s:@]+:[^/\s@]+@\S"  # user:password@ in an address
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b"  # an AWS access key id
    r"|\b(password|pwd|secret)\s*=\s*[^\s;,'\"]{3,}[;,]?)",
    re.IGNORECASE,
)
_SHAPE = re.compile(
    r"\b(gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|xox[abp]-[A-Za-z0-9-]{10}|AKIA[0-9A-Z]{16}\b)"
    r"|\b[Bb]earer\s+eyJ|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|://[\w.%+-]+:[^\s/@'\"`(){}\[\]\\]+@\w"  # user:password@ in an address, but not a pattern of an address
    r"|[;?&](password|passwd|pwd|secret|token)=[^\s;&'\"]{3}"  # in an address, but not a comparison of columns
)
_BARE = re.compile(r"(^|[._-])(token|pwd|pass)$", re.IGNORECASE)
_PROSE = ("sql", "why", "rules", "key", "value", "delete_when")
_FREE_KEYS = ("spark", "options", "properties", "connections", "catalog")
_ADDRESS = re.compile(r"[^\s/:@'\"`(]+:[^\s/@]+@(?=\S)")
_WORD = re.compile(r"[^\s'\"`]+")


def hides_secret(key: str) -> bool:
    """Whether the name of a setting indicates a secret value."""
    return bool(_KEY.search(key))


def looks_secret(value: object) -> bool:
    """Whether a value looks like a secret, independent of its name."""
    return isinstance(value, str) and bool(_VALUE.search(value) or _SHAPE.search(value))


def holds_token(text: str) -> bool:
    """Whether prose or SQL contains a certain secret; in SQL `password = 'x'` is only a comparison."""
    return bool(_SHAPE.search(text))


def named_secret(path: Path_) -> bool:
    """Whether the last key of a path indicates a secret value, where users choose the names."""
    key = path[-1] if path else None
    named = isinstance(key, str) and (hides_secret(key) or _BARE.search(key))
    return bool(named) and any(part in _FREE_KEYS for part in path[:-1])


def hidden(path: Path_, value: object) -> frozenset[object]:
    """The keys of a path that look like secrets, and the value if it looks like one or its key indicates one."""
    secrets = {part for part in (*path, value) if isinstance(part, str) and looks_secret(part)}
    if named_secret(path) and isinstance(value, str | int | float) and value != path[-1]:
        secrets.add(str(value))
    return frozenset(secrets)


def masked(text: str, values: Iterable[object] = ()) -> str:
    """The text without these values and without words that look like a secret."""
    written = {form for secret in values for form in (str(secret), repr(str(secret))[1:-1])}
    for value in sorted(written - {""}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
    text = _WORD.sub(lambda word: MASK if looks_secret(word[0]) else word[0], text)
    return _ADDRESS.sub(f"{MASK}@", text)


def secrets(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Paths of suspected secrets: by the name of the setting where users choose names, by the value everywhere.

    A key can also be a secret; the path then ends with it.
    """
    if isinstance(data, dict):
        for key, value in data.items():
            here = (*path, key)
            if looks_secret(key) or (named_secret(here) and not isinstance(value, dict | list)):
                yield here
            else:
                yield from secrets(value, here)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from secrets(value, (*path, index))
    elif isinstance(data, str) and (holds_token if any(part in _PROSE for part in path) else looks_secret)(data):
        yield path
