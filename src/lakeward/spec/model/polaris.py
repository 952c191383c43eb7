"""Import of Apache Polaris policies as an entry of `conf/tables.yaml`: Polaris stores policies, Lakeward applies them.

It reads the four system policies of the schemas of 2025-02-03, in the form of Polaris' API: `policy-type` and
`content` (JSON, or JSON in a string); one policy, one under `policy`, many under `applicable-policies`, or a list.
Settings without a counterpart are reported, never dropped silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.platform.errors import SpecError
from lakeward.spec.model.tables import Rule, below_floors, merged

VERSION: Final = "2025-02-03"
TYPES: Final = ("data-compaction", "metadata-compaction", "snapshot-expiry", "orphan-file-removal")
_SECTIONS: Final = {"data-compaction": "compact", "metadata-compaction": "manifests", "snapshot-expiry": "expire",
                    "orphan-file-removal": "orphans"}  # fmt: skip


@dataclass
class Imported:
    """The result of an import.

    Attributes:
        settings: the entry of `conf/tables.yaml`, without its `match`.
        unmapped: one sentence for each setting without a counterpart.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    unmapped: list[str] = field(default_factory=list)


def imported(text: str, match: str) -> Imported:
    """Policies of one JSON document, for the tables that match.

    Raises:
        SpecError: it is not JSON, or contains no Polaris policy.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise SpecError(
            "This is not JSON", why=str(error), next="save the policy as Polaris' API returns it", code="LW-1002"
        ) from None
    result = Imported()
    for policy in _policies(data):
        _one(policy, result)
    _below_floors(result, match)
    return result


def entry(result: Imported, match: str) -> str:
    """The text of the entry for `conf/tables.yaml`."""
    lines = ["policies:", f"  - match: {json.dumps(match)}"]
    for section, values in result.settings.items():
        lines.append(f"    {section}: {{{', '.join(f'{key}: {_written(value)}' for key, value in values.items())}}}")
    return "\n".join([*(f"# not mapped: {note}" for note in result.unmapped), *lines]) + "\n"


def _policies(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        data = data.get("applicable-policies", [data.get("policy", data)])
    for item in data if isinstance(data, list) else [data]:
        if not isinstance(item, Mapping) or "policy-type" not in item or "content" not in item:
            raise SpecError(
                "This is not a policy of Apache Polaris",
                why="each needs `policy-type` and `content`; the content alone does not say which policy it is",
                next="save the policy as Polaris' API returns it",
                code="LW-1003",
            )
        yield item


def _one(policy: Mapping[str, Any], result: Imported) -> None:
    kind = str(policy["policy-type"]).removeprefix("system.")
    content = policy["content"]
    if kind not in TYPES:
        result.unmapped.append(
            f"{policy['policy-type']}: only {', '.join(f'system.{known}' for known in TYPES)} are read"
        )
        return
    try:
        content = json.loads(content) if isinstance(content, str) else content
    except ValueError:
        content = None
    if not isinstance(content, Mapping) or not isinstance(content.get("enable"), bool):
        raise SpecError(
            f"The content of system.{kind} is wrong", why="it needs `enable`: true or false", code="LW-1001"
        )
    if content.get("version", VERSION) != VERSION:
        result.unmapped.append(f"system.{kind}: version {content['version']}, known is {VERSION}")
        return
    values = {"enabled": content["enable"]}
    rest = {key: value for key, value in content.items() if key not in ("version", "enable", "config")}
    for name, value in {**rest, **(content.get("config") or {})}.items():
        here = _value(kind, name, value)
        if here is None:
            result.unmapped.append(f"system.{kind}: {name} = {json.dumps(value)}")
        else:
            values[here[0]] = here[1]
    result.settings = merged(result.settings, {_SECTIONS[kind]: values})


def _value(kind: str, name: str, value: Any) -> tuple[str, Any] | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    if (kind, name) == ("data-compaction", "target_file_size_bytes"):
        return "target_size", _size(int(value))
    if (kind, name) == ("snapshot-expiry", "min_snapshot_to_keep") and value == int(value):
        return "min_snapshots", int(value)
    if name in ("max_snapshot_age_days", "max_orphan_file_age_in_days"):
        return "older_than", f"{int(value)}d" if value == int(value) else f"{round(value * 24)}h"
    return None


def _size(count: int) -> str:
    for unit, length in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count % length == 0:
            return f"{count // length}{unit}"
    return f"{count}B"


def _below_floors(result: Imported, match: str) -> None:
    """Remove what is only allowed under `unsafe:`."""
    try:
        rule = Rule.model_validate({"match": match, **result.settings})
    except ValueError as error:
        raise SpecError(f"{match!r}, or a value of the policy, is wrong", why=str(error), code="LW-1004") from None
    for path, value, floor, cost in below_floors(rule):
        section, key = path.split(".")
        del result.settings[section][key]
        result.unmapped.append(f"{path} = {value}: below the floor of {floor} ({cost}); allowed under unsafe: only")


def _written(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
