"""What an operation on rows leaves where it is, as a report of `replay` and `quarantine` counts it."""

from __future__ import annotations

from typing import TypedDict


class Left(TypedDict):
    """Rows or records that stay where they are, and why."""

    why: str
    count: int
