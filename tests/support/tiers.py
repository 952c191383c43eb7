"""Which tier a test belongs to: by its folder, or by a marker of its own. `pyproject.toml` says what each tier is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

TIERS = ("unit", "spark", "airflow", "process", "campaign")
BY_FOLDER = {"unit": "unit", "contracts": "unit", "spark": "spark", "dags": "airflow", "faults": "process"}


def tier_of(nodeid: str, own: Iterable[str]) -> str:
    """The tier of a test.

    Args:
        nodeid: from the root of the repository.
        own: the names of its markers; `campaign` wins over every other tier.
    """
    marked = [tier for tier in TIERS if tier in set(own)]
    return marked[-1] if marked else BY_FOLDER[nodeid.split("/")[1]]


def assign(items: Iterable[pytest.Item]) -> None:
    """Mark each test with its one tier, and as `seeded` if Hypothesis draws for it."""
    for item in items:
        own = [marker.name for marker in item.iter_markers()]
        tier = tier_of(item.nodeid, own)
        for other in TIERS:
            if other in own and other != tier:
                item.own_markers[:] = [marker for marker in item.own_markers if marker.name != other]
        if tier not in own:
            item.add_marker(tier)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("seeded")
