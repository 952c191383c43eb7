"""The reference page of maintenance policies: each threshold with its default, reason and floor."""

from __future__ import annotations

from typing import Any

from lakeward.spec.model.policy import CLASS_DEFAULTS, FLOORS, REASONS, Policy
from lakeward.spec.model.tables import leaves

PAGE = "policies.md"

_PAGE = """# Maintenance policies

The thresholds that `conf/tables.yaml` can set for tables matching a glob, with their defaults. Generated from the code:
`make schemas`. `lakeward tables policy TABLE` shows the resolved policy of a table and the origin of each value. A
value below its floor is refused outside `unsafe:`, whose entries need a `why`.

| threshold | default | because | floor | below it |
|---|---|---|---|---|
{rows}

## Defaults by table class

`lakeward` derives the class from the streams that write the table; an entry with `class:` overrides it.

| class | threshold | default there |
|---|---|---|
{classes}
"""


def page() -> str:
    """The page of the reference."""
    defaults = dict(leaves(Policy().document()))
    rows = [
        f"| `{path}` | {_value(defaults.get(path))} | {reason} | {_floor(path)} |" for path, reason in REASONS.items()
    ]
    classes = [
        f"| `{name}` | `{path}` | `{value}` |"
        for name, changed in CLASS_DEFAULTS.items()
        for path, value in leaves(changed)
    ]
    return _PAGE.format(rows="\n".join(rows), classes="\n".join(classes))


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _floor(path: str) -> str:
    floor, cost = FLOORS.get(path, (None, ""))
    return f"{_value(floor) if floor is not None else ''} | {cost}"
