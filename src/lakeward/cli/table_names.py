"""Names of tables on the command line: with or without the name of the lake's catalog, in either spelling."""

from __future__ import annotations

from typing import TypeVar

from lakeward.cli.context import state
from lakeward.spec.sql.names import NotAName, dotted, name_parts, without_catalog

_Value = TypeVar("_Value", str, list[str], str | None, list[str] | None)


def plain(value: _Value) -> _Value:
    """A name as it is stored, for typer's `callback`.

    `prod.sales.orders` is `sales.orders`, if the settings name the lake's catalog `prod`. A part needs no backticks
    unless it has a dot or a backtick: ``'`-eu`.orders'`` is the table `-eu.orders`, which would be taken for an option.
    """
    if isinstance(value, list):
        return [_stored(name) for name in value]
    return _stored(value) if isinstance(value, str) else value


def _stored(name: str) -> str:
    try:
        plain = dotted(name_parts(name))
    except NotAName:
        return name  # the command says so
    if plain.count(".") < 2:
        return plain
    from lakeward.spec.read.settings_file import usable_settings

    return without_catalog(plain, usable_settings(state().project).prefix)
