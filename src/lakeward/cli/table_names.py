"""Names of tables on the command line: with or without the name of the lake's catalog."""

from __future__ import annotations

from typing import TypeVar

from lakeward.cli.context import state
from lakeward.spec.sql.names import without_catalog

_Value = TypeVar("_Value", str, list[str], str | None, list[str] | None)


def plain(value: _Value) -> _Value:
    """`prod.sales.orders` as `sales.orders`, if the settings name the lake's catalog `prod`: for typer's `callback`."""
    names = value if isinstance(value, list) else [value] if value else []
    if not any(name.count(".") > 1 for name in names):
        return value
    from lakeward.spec.read.settings_file import usable_settings

    catalog = usable_settings(state().project).prefix
    if isinstance(value, list):
        return [without_catalog(name, catalog) for name in value]
    return without_catalog(value, catalog) if isinstance(value, str) else value
