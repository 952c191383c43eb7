"""Log events of a check run as one line, as a person reads them in a task log."""

from __future__ import annotations

from collections.abc import Mapping


def line(event: str, fields: Mapping[str, object]) -> str:
    """`event key=value …`."""
    return " ".join([event, *(f"{key}={value}" for key, value in fields.items())])
