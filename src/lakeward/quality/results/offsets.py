"""Offsets as people read them: which part of each topic. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

UNNAMED = "source"
"""A stream's only source, which nobody gave a name."""
MOST = 6
"""Partitions that are named; of more it is said how many there are."""


def between(start: Any, end: Any) -> str:
    """`flights/0 7494 to 7507, flights/1 7199 to 7210`; what has another form than a number a partition, as it is.

    Args:
        start, end: by source, as the registry keeps them; Kafka's, topic -> partition -> offset, as text or object.
    """
    first, last = _flat(start), _flat(end)
    if not last or any(not isinstance(each, int) for each in (*first.values(), *last.values())):
        return f"{_plain(start)} to {_plain(end)}"
    told = [f"{name} {first.get(name, 'its beginning')} to {offset}" for name, offset in last.items()]
    more = f" and {len(told) - MOST} more partitions" if len(told) > MOST else ""
    return ", ".join(told[:MOST]) + more


def _flat(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and set(value) == {UNNAMED}:
        value = value[UNNAMED]
    return {"/".join(path): offset for path, offset in _leaves(value, ())}


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            yield path, value
            return
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, inner in sorted(value.items()):
        # A source is mostly named after its one topic: once is enough.
        yield from _leaves(inner, path if path[-1:] == (str(name),) else (*path, str(name)))


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str).replace('"', "").replace("\\", "")
