"""How one generation of a stream differs from another: one line for each key of the resolved spec, and for its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff

MOST_CHARACTERS = 80
"""A longer value is counted by lines instead of shown."""


def lines(
    before: Mapping[str, object],
    after: Mapping[str, object],
    code_before: Mapping[str, str] | None = None,
    code_after: Mapping[str, str] | None = None,
) -> list[str]:
    """The differences of two resolved specs, and of the digests of their code (name of a module or file -> digest).

    Keys are paths with dots: `trigger.every: 10s → 30s`.
    """
    found = [_line(path, old, new) for path, old, new in _walk("", before, after)]
    old, new = code_before or {}, code_after or {}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            word = "added" if name not in old else "removed" if name not in new else "changed"
            found.append(f"code {name}: {word}")
    return found


def _walk(path: str, before: object, after: object) -> Iterator[tuple[str, object, object]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            yield from _walk(f"{path}.{key}" if path else str(key), before.get(key), after.get(key))
    elif before != after:
        yield path, before, after


def _line(path: str, before: object, after: object) -> str:
    old, new = _text(before), _text(after)
    if before is None:
        return f"{path}: {_short(new)} (added)"
    if after is None:
        return f"{path}: removed, was {_short(old)}"
    if len(old) <= MOST_CHARACTERS and len(new) <= MOST_CHARACTERS and "\n" not in old + new:
        return f"{path}: {old} → {new}"
    changed = [line[0] for line in unified_diff(old.split("\n"), new.split("\n"), n=0)]
    # The first two lines name the texts.
    return f"{path}: {changed[2:].count('+')} lines added, {changed[2:].count('-')} removed"


def _short(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return f"{first[:MOST_CHARACTERS]} ..." if rest or len(first) > MOST_CHARACTERS else first


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)
