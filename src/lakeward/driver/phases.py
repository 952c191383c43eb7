"""Durations of a batch by phase, and state size, from Spark's progress report and the landing's own timers."""

from __future__ import annotations

from lakeward.engine.batch import FinishedBatch
from lakeward.registry.observations import Progress, StateSize


def of(progress: Progress, done: FinishedBatch) -> dict[str, float]:
    """Phase -> seconds: Spark's names (`addBatch` includes the landing), and `stage` and `publish` of the landing."""
    spark = {str(name): round(int(millis) / 1000, 3) for name, millis in (progress.get("durationMs") or {}).items()}
    ours = {"stage": done.outcome.stage_ms, "publish": done.outcome.publish_ms}
    return spark | {name: round(millis / 1000, 3) for name, millis in ours.items() if millis}


def state_of(progress: Progress) -> StateSize:
    """Rows and bytes of all state stores of a query."""
    operators = progress.get("stateOperators") or []

    metrics = [operator.get("customMetrics") or {} for operator in operators]
    return {
        "rows": sum(operator.get("numRowsTotal") or 0 for operator in operators),
        "bytes": sum(operator.get("memoryUsedBytes") or 0 for operator in operators),
        "disk_bytes": sum(int(metric.get("rocksdbSstFileSize", 0) or 0) for metric in metrics),
    }
