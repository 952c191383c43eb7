"""Names of tables on the command line: with or without the name of the lake's catalog."""

from __future__ import annotations

from typing import TypeVar

from lakeward.cli.context import state
from lakeward.platform.errors import SpecError
from lakeward.platform.text import word
from lakeward.spec.sql.names import catalog_in, without_catalog

_Value = TypeVar("_Value", str, list[str], str | None, list[str] | None)


def plain(value: _Value) -> _Value:
    """`prod.sales.orders` as `sales.orders`, if the settings name the lake's catalog `prod`: for typer's `callback`."""
    names = value if isinstance(value, list) else [value] if value else []
    if not any(name.count(".") > 1 for name in names):
        return value
    from lakeward.spec.read.settings_file import usable_settings

    settings = usable_settings(state().project)
    catalog = settings.prefix
    for name in names:
        if (other := catalog_in(name, settings.others)) is not None:
            raise SpecError(
                f"Table {name} is in the catalog {other}",
                why=f"not yet: streams, checks and maintenance work in the default catalog, {settings.lake_name}",
                next=f"lakeward sql {word(f'FROM {name}')}   reads it",
                code="LW-3503",
            )
    if isinstance(value, list):
        return [without_catalog(name, catalog) for name in value]
    return without_catalog(value, catalog) if isinstance(value, str) else value
