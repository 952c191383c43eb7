"""Generation diff: the spec keys in which two generations of a stream differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.registry.generations import Generation


def keys(before: Generation, after: Generation) -> list[str]:
    """The keys whose values differ, as a user writes them, e.g. `trigger.every`; versions last."""
    first, second = _flat(before.spec), _flat(after.spec)
    changed = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if before.sql != after.sql and not any(name.startswith("transform") for name in changed):
        changed.append("transform.sql")
    if before.code != after.code:
        changed.append("code")
    old, new = before.versions, after.versions
    changed += [
        f"{name} {old.get(name, '-')} → {new.get(name, '-')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    return changed


def _flat(value: Any, path: str = "") -> dict[str, object]:
    if isinstance(value, Mapping) and value:
        return {
            name: item
            for key, part in value.items()
            for name, item in _flat(part, f"{path}.{key}" if path else str(key)).items()
        }
    return {path: value}
