"""Figures of recorded batches."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeward.registry.batches import Batch, core_s_per_million


def batch(core_s: float | None, consumed: int | None) -> Batch:
    return Batch(
        "s", "q", 0, 0, 1, None, None, None, consumed, None, None, None, None, None, 1.0, None, core_s, False, None,
        datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "cost"),
    [
        ([(1.5, 1_000), (0.5, 3_000)], 500.0),
        ([(1.5, 1_000), (None, 9_000), (7.0, None)], 1_500.0),  # a figure without the other one says nothing
        ([(0.1, 0)], None),
        ([], None),
    ],
)
def test_core_seconds_for_a_million_records(rows: list[tuple[float | None, int | None]], cost: float | None) -> None:
    assert core_s_per_million(batch(*row) for row in rows) == cost
