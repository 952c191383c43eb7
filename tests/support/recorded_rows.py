"""Rows as the registry returns them, for tests of pure functions over them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakeward.registry.batches import Batch


def batch(**values: Any) -> Batch:
    """A recorded batch; columns that are not named are empty."""
    empty = dict.fromkeys(Batch.__dataclass_fields__)
    fixed = {"stream": "s", "query_id": "q", "batch_id": 0, "generation": 1, "replayed": False}
    return Batch(**{**empty, **fixed, "committed_at": datetime(2026, 1, 1, tzinfo=UTC), **values})
