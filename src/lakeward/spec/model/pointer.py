"""What tells a pointer table from any other: its name, and a property."""

from __future__ import annotations

OF = "lakeward.verified-of"
"""Property of a pointer table: the table it shows what is proven of."""


def name_of(table: str) -> str:
    """The pointer table's name."""
    return f"{table}__verified"
