"""SQLite as the catalog of the lake is refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping

WHY = (
    "SQLite lets one process write at a time; with a second one beside a stream (maintenance, another driver) one of "
    "the two dies of `database is locked`"
)


def refusal(properties: Mapping[str, str]) -> str:
    """Why a catalog with these properties is refused as SQLite; empty if it is not SQLite."""
    for key, value in sorted(properties.items()):
        if value.strip().lower().removeprefix("jdbc:").startswith("sqlite"):
            return f"{key} is {value.partition('?')[0]}: {WHY}"
    return ""
