"""Repair: a spec without its invalid parts, so that problems of the other parts are found in the same pass.

The repaired spec is never deployed; it only serves checks that need a complete spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lakeward.spec.model.table_names import KnownCatalogs
from lakeward.spec.read.messages import Finding, findings
from lakeward.spec.read.text_positions import Path_

_Model = TypeVar("_Model", bound=BaseModel)
_ROUNDS = 20  # each removes something; a file needs one or two
_REQUIRED: dict[str, Any] = {
    "id": "unknown",
    "owner": "unknown",
    "sources": {"source": {"format": {"name": "unknown"}}},
    "sink": {"iceberg": {"table": "unknown.unknown"}},
    "table": "unknown.unknown",
    "topic": "unknown",
    "type": "expect_unknown",
    "expectations": [{"type": "expect_unknown"}],
    "match": "unknown.unknown",
    "why": "unknown",
}
"""Placeholders for required values."""


@dataclass(frozen=True)
class Repaired(Generic[_Model]):
    """The result of a repair.

    Attributes:
        spec: None if too few parts are valid.
        doubtful: paths that cannot be checked.
        later: findings of later rounds that do not follow from removed parts.
    """

    spec: _Model | None
    doubtful: frozenset[Path_] = frozenset()
    later: tuple[Finding, ...] = ()


def repaired(
    kind: type[_Model], data: dict[str, Any], problems: Iterable[Finding], known_catalogs: KnownCatalogs | None = None
) -> Repaired[_Model]:
    """A model of the valid parts of the data, which has these problems."""
    rest, doubtful, later = deepcopy(data), set[Path_](), list[Finding]()
    for _ in range(_ROUNDS):
        for finding in sorted(problems, key=lambda known: [str(part).zfill(6) for part in known.path], reverse=True):
            if not finding.path:
                return Repaired(None, later=tuple(later))
            doubtful |= _cured(rest, finding)
        try:
            return Repaired(
                kind.model_validate(rest, by_name=False, context=known_catalogs), frozenset(doubtful), tuple(later)
            )
        except ValidationError as error:
            problems = findings(error, kind, rest)
        later += [finding for finding in problems if not _follows(finding, doubtful)]
    return Repaired(None, later=tuple(later))


def _cured(data: dict[str, Any], finding: Finding) -> set[Path_]:
    """Remove from the data what a finding concerns; returns the paths that cannot be checked now."""
    path = finding.path
    keys = [key for key in finding.about or () if key in _keys(data, path)]
    if keys:
        return {_taken_out(data, (*path, key)) for key in keys}
    taken = _taken_out(data, path)
    if finding.key and finding.valid and finding.nearest is None:
        return set()  # a key without a similar valid key affects none of them
    return {path, taken, (*path[:-1], finding.nearest or path[-1])}


def _keys(data: Any, path: Path_) -> Iterable[Any]:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ()
    return data if isinstance(data, dict) else ()


def _taken_out(data: Any, path: Path_) -> Path_:
    """Remove the value at `path`, or add a placeholder for a missing one; returns the changed path."""
    inside = [data]
    for part in path[:-1]:
        try:
            inside.append(inside[-1][part])
        except (KeyError, IndexError, TypeError):
            return path  # its parent is already removed
    above, last = inside[-1], path[-1]
    if isinstance(above, list) and isinstance(last, int) and last < len(above):
        stand_in = f"unknown_{last}"
        if above[last] != stand_in:  # a name, a topic, a tag, a partition field: the others keep their index
            above[last] = stand_in
            return path
        del above[last]
        return path[:-1]
    if not isinstance(above, dict):
        return path
    if last in above:
        del above[last]
    elif str(last) in _REQUIRED:
        above[str(last)] = deepcopy(_REQUIRED[str(last)])
    elif len(path) > 1:
        return _taken_out(data, path[:-1])
    return path


def _follows(finding: Finding, doubtful: Iterable[Path_]) -> bool:
    """Whether a finding of a later round only follows from a removed part."""
    path = finding.path
    if finding.about is None:
        return concerns(finding, doubtful)
    unsure = {doubt[len(path)] for doubt in doubtful if len(doubt) > len(path) and doubt[: len(path)] == path}
    return not unsure.isdisjoint(finding.about)


def concerns(finding: Finding, doubtful: Iterable[Path_]) -> bool:
    """Whether a finding may only follow from a removed part. A finding about a key never does."""
    path = finding.path
    return any(
        path[: len(doubt)] == doubt
        or (not finding.key and doubt[: len(path)] == path)
        or any(need[: len(doubt)] == doubt for need in finding.needs)
        for doubt in doubtful
    )
