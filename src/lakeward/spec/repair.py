"""A spec with its bad parts taken out, so that what is wrong with the rest is found in the same pass.

Never deployed: it only carries the checks that need a whole spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from lakeward.spec.document import Path_
from lakeward.spec.messages import Finding, findings
from lakeward.spec.stream import StreamSpec

_ROUNDS = 20  # each takes something out; a file needs one or two
_REQUIRED: dict[str, Any] = {
    "owner": "unknown",
    "max_offsets_per_trigger": 1,
    "sink": {"iceberg": {"table": "unknown.unknown"}},
}
"""Stand-ins for what must be there."""


def repaired(data: dict[str, Any], found: Iterable[Finding]) -> tuple[StreamSpec | None, frozenset[Path_]]:
    """A spec of what is well formed in the data, and the paths nothing can be said about; None where too little is."""
    rest, doubtful = deepcopy(data), set[Path_]()
    for _ in range(_ROUNDS):
        for finding in sorted(found, key=lambda each: [str(part).zfill(6) for part in each.path], reverse=True):
            if not finding.path:
                return None, frozenset()
            doubtful |= {finding.path, (*finding.path[:-1], finding.nearest or finding.path[-1])}
            doubtful.add(_taken_out(rest, finding.path))
        try:
            return StreamSpec.model_validate(rest, by_name=False), frozenset(doubtful)
        except ValidationError as error:
            found = findings(error, StreamSpec, rest)
    return None, frozenset()


def _taken_out(data: Any, path: Path_) -> Path_:
    """Take the value at `path` out, or put a stand-in where one is missing; the path that was changed."""
    inside = [data]
    for part in path[:-1]:
        try:
            inside.append(inside[-1][part])
        except (KeyError, IndexError, TypeError):
            return path  # what is around it was taken out already
    above, last = inside[-1], path[-1]
    if isinstance(above, list) and isinstance(last, int) and last < len(above):
        del above[last]
        return path[:-1]  # the others have moved up: their places would be wrong
    if not isinstance(above, dict):
        return path
    if last in above:
        del above[last]
    elif str(last) in _REQUIRED:
        above[str(last)] = deepcopy(_REQUIRED[str(last)])
    elif len(path) > 1:
        return _taken_out(data, path[:-1])
    return path


def concerns(finding: Finding, doubtful: Iterable[Path_]) -> bool:
    """Whether a finding may only follow from what was taken out. One about a key never does."""
    path = finding.path
    return any(path[: len(each)] == each or (not finding.key and each[: len(path)] == path) for each in doubtful)
