"""Maintenance policies of tables: `conf/tables.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from lakeward.spec.model.base import SpecModel, Text, partial
from lakeward.spec.model.policy import CLASS_DEFAULTS, FLOORS, REASONS, UNSET, Policy, TableClass
from lakeward.spec.model.table_names import Glob
from lakeward.spec.model.types import Duration, Size, Span
from lakeward.spec.read.text_positions import Path_

_CLASS = re.compile(r"\[(!?)(.)[^\]]*\]")
_NAMED_BY_NONE = "-.-"  # no table has this name; a glob for all tables matches it too

PolicyOverride = partial(Policy, "PolicyOverride")
"""A policy whose keys are all optional."""


class Rule(PolicyOverride):  # type: ignore[misc, valid-type]  # made by partial() above
    """Thresholds for the tables that match."""

    match: Glob
    """The tables of this entry, as a glob over namespace.table."""


class UnsafeRule(Rule):
    """Thresholds below the floors for matching tables: for experiments and demos."""

    why: Text
    """Why these tables may lose the protection of the floors."""


class Tables(SpecModel):
    """Policies of the lake's tables. Later entries win over earlier ones, `unsafe` over all."""

    budget: Span = Duration("1h")
    """Expected seconds of maintenance that one pass over all tables may start; the tables that gain most are first."""
    defaults: PolicyOverride = PolicyOverride()  # type: ignore[valid-type]  # made by partial() above
    policies: tuple[Rule, ...] = ()
    unsafe: tuple[UnsafeRule, ...] = ()


@dataclass(frozen=True)
class ResolvedPolicy:
    """The policy of one table, and where each value came from.

    Attributes:
        table: `namespace.table`.
        policy: every threshold.
        origins: path of a threshold (`expire.older_than`) -> the entry of tables.yaml, or default and reason.
    """

    table: str
    policy: Policy
    origins: dict[str, str]


def leaves(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Path -> value of every leaf of nested mappings, paths joined with dots."""
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from leaves(value, path + ".")
        else:
            yield path, value


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` merged over `below`, mapping by mapping; neither is changed."""
    result = dict(below)
    for key, value in above.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def overrides(rule: SpecModel) -> dict[str, Any]:
    """The keys that an entry sets, as plain data with the keys a user writes."""
    data = rule.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in data.items() if key not in ("match", "why")}


def resolve_policy(
    tables: Tables, table: str, class_: TableClass = "append-stream", further: str | None = None
) -> ResolvedPolicy:
    """The policy of `table`: class defaults, then `defaults`, then matching `policies`, then matching `unsafe`.

    `class_` is derived from the table's writers; an entry with `class:` overrides it. A glob covers tables of a further
    catalog only if it begins with its name: `*.*` is of the default catalog.

    Args:
        further: the name of the table's catalog, if it is not the default one.
    """
    layers: list[tuple[str, dict[str, Any]]] = [("defaults", overrides(tables.defaults))]
    rules = [(f"policies[{i}] ({r.match})", r) for i, r in enumerate(tables.policies)]
    rules += [(f"unsafe[{i}] ({r.why})", r) for i, r in enumerate(tables.unsafe)]
    layers += [(name, overrides(rule)) for name, rule in rules if matches(rule, table, further)]
    chosen = str(class_)
    for _, data in layers:
        chosen = data.get("class", chosen)
    document: dict[str, Any] = merged(Policy().document(), CLASS_DEFAULTS[chosen]) | {"class": chosen}
    for section, name in (path.split(".") for path in UNSET):
        document[section].setdefault(name, None)
    origins = {path: f"default: {REASONS[path]}" for path, _ in leaves(document)}
    for path, _ in leaves(CLASS_DEFAULTS[chosen]):
        origins[path] = f"default of {chosen}: {REASONS[path]}"
    for name, data in layers:
        document = merged(document, data)
        for path, _ in leaves(data):
            origins[path] = f"conf/tables.yaml {name}"
    return ResolvedPolicy(table, Policy.model_validate(document), origins)


def matches(rule: SpecModel, table: str, further: str | None = None) -> bool:
    """Whether the entry names the table, or its glob covers it; `further`: of `resolve_policy`."""
    match = cast(Rule, rule).match
    if further is not None and not match.startswith(f"{further}."):
        return False
    return table == match or fnmatchcase(table, match)


def entries(tables: Tables) -> list[tuple[Path_, SpecModel]]:
    """Every entry with its path; later entries override earlier ones."""
    rules: list[tuple[Path_, SpecModel]] = [(("defaults",), tables.defaults)]
    rules += [(("policies", index), rule) for index, rule in enumerate(tables.policies)]
    return rules + [(("unsafe", index), rule) for index, rule in enumerate(tables.unsafe)]


def larger_than_a_group(tables: Tables, landed: Iterable[str] = ()) -> Iterator[tuple[Path_, str]]:
    """Entries that together request files that cannot be written, and why: a rewrite processes one group at a time.

    Checked for every table of `landed`, for a sample of each entry's glob, and for tables without an entry.
    """
    examples = [_CLASS.sub(_one_of, rule.match) for rule in (*tables.policies, *tables.unsafe)]
    contradictions = set()
    for table in (_NAMED_BY_NONE, *examples, *landed):
        matching = [(at, rule) for at, rule in entries(tables) if at == ("defaults",) or matches(rule, table)]
        target, group = _last(matching, "target_size"), _last(matching, "max_group_size")
        limit = Policy().compact.max_group_size if group is None else group[2]
        if target is None or target[2] <= limit:
            continue
        if group is None or group[0] <= target[0]:
            where = "" if group is None or group[1] == target[1] else f" of {_words(group[1])}"
            path, why = target[1], f"more than max_group_size ({limit}){where}: no file of this size can be made"
            contradictions.add(((*path, "compact", "target_size"), why))
        else:
            why = f"less than target_size ({target[2]}) of {_words(target[1])}: no file of that size can be made"
            contradictions.add(((*group[1], "compact", "max_group_size"), why))
    yield from contradictions


def _last(rules: Sequence[tuple[Path_, SpecModel]], key: str) -> tuple[int, Path_, Size] | None:
    """The entry that decides a threshold of compaction: its number, its path and the value; None if none does."""
    for number, (at, rule) in reversed(list(enumerate(rules))):
        value = getattr(getattr(rule, "compact", None), key, None)
        if value is not None:
            return number, at, value
    return None


def _words(at: Path_) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else part for part in at)


def _one_of(some: re.Match[str]) -> str:
    """A letter that matches `[abc]` or `[!abc]` of a glob."""
    return "*" if some[1] else some[2]


def below_floors(rule: SpecModel) -> list[tuple[str, Any, Any, str]]:
    """Thresholds of an entry below their floor: (path, value, floor, cost of a smaller value)."""
    problems = []
    for path, (floor, cost) in FLOORS.items():
        value: Any = rule
        for part in path.split("."):
            value = getattr(value, part, None)
        if value is not None and value < floor:
            problems.append((path, value, floor, cost))
    return problems
