"""The problems of a project as a person reads them."""

from __future__ import annotations

from typing import Any


def texts(loaded: Any) -> str:
    """One problem a line."""
    return "\n".join(problem.text() for problem in loaded.problems)
