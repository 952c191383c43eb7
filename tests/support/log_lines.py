"""Log events with their fields as one line, as a person reads them in a task log."""

from __future__ import annotations

from collections.abc import Mapping

ENVELOPE = ("event", "timestamp", "level", "logger", "error_detail", "sources")
"""Keys of an entry of Airflow's log that are not fields of the event."""


def line(event: str, fields: Mapping[str, object]) -> str:
    """`event key=value ...`."""
    return " ".join([event, *(f"{key}={value}" for key, value in fields.items())])


def of_entry(entry: Mapping[str, object] | str) -> str:
    """An entry of the log of an Airflow task: its event with the fields."""
    if isinstance(entry, str):
        return entry
    return line(str(entry.get("event", "")), {key: value for key, value in entry.items() if key not in ENVELOPE})
