"""How many rows the last batches of a stream dropped as late, from Spark's progress reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lakeward.registry.observations import Lateness, Progress, StateOperator

BATCHES = 20
"""How many batches with rows are summed up."""


class RecentLateness:
    """The late rows of the last `BATCHES` batches that had rows, of each stream since this driver started."""

    def __init__(self) -> None:
        self._batches: dict[str, deque[tuple[int, int]]] = {}

    def after(self, stream: str, progress: Progress) -> Lateness:
        """The sums after one more batch.

        Spark counts dropped and kept rows behind the partial aggregation of a batch, so both are at most the records.
        """
        operators = progress.get("stateOperators") or []
        batches = self._batches.setdefault(stream, deque(maxlen=BATCHES))
        dropped, updated = dropped_of(operators), sum(int(each.get("numRowsUpdated") or 0) for each in operators)
        if dropped or updated:
            batches.append((dropped, updated))
        return {
            "batches": len(batches),
            "dropped": sum(each for each, _ in batches),
            "kept": sum(each for _, each in batches),
            "watermark": (progress.get("eventTime") or {}).get("watermark"),
        }


def dropped_of(operators: Sequence[StateOperator]) -> int:
    """The rows that the operators of one batch dropped as late."""
    return sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators)
