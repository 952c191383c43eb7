"""A simulated week of maintenance: several writers, the real planner, a model of the rewrites. No engine, no table.

Prints, as JSON, a line a table with what a week of commits became, and the ledger of each day:

    python benchmarks/maintenance_week.py --days 7
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from table_model import DAY, SHAPES, Shape, TableModel


def main() -> None:
    """Simulate, and print one JSON document."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--days", type=int, default=7)
    days = arguments.parse_args().days
    print(json.dumps({"days": days, "tables": [week(shape, days) for shape in SHAPES]}, indent=2))


def week(shape: Shape, days: int) -> dict[str, Any]:
    """One table: its ledger by day, and how it stands at the end."""
    model = TableModel(shape)
    ledger = []
    for _ in range(days):
        seen = len(model.ledger)
        model.run(DAY)
        ledger.append(day(model, model.ledger[: len(model.ledger) - seen]))
    busy = model.facts().profile
    model.run(timedelta(hours=3), writing=False)
    quiet = model.facts().profile
    written = sum(model.ingested.values())
    return {
        "table": shape.name,
        "commits": int(days * DAY / shape.every),
        "written_bytes": written,
        "files_without_maintenance": int(days * DAY / shape.every) * len(shape.files(model.now, model.chance)),
        "files": busy.files,
        "files_three_hours_after_the_last_commit": quiet.files,
        "write_amplification": round(model.amplification(), 2),
        "write_amplification_over_1gb": round(model.amplification(1 << 30), 2),
        "expected_over_real_seconds": accuracy(model),
        "ledger": ledger,
    }


def day(model: TableModel, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One day's rows, counted."""
    done = Counter(row["action"] for row in rows if row["result"] == "done")
    compactions = [row["after"] for row in rows if row["action"] == "compact"]
    return {
        "until": f"{model.now:%Y-%m-%d}",
        "done": dict(done),
        "failed": sum(row["result"] == "failed" for row in rows),
        "files_taken": sum(each["files_taken"] for each in compactions),
        "files_given": sum(each["files_given"] for each in compactions),
        "seconds": round(sum(row["duration_s"] for row in rows)),
    }


def accuracy(model: TableModel) -> float | None:
    """Expected over real seconds of the last ten compactions: 1 is right."""
    last = [row for row in model.ledger if row["action"] == "compact" and row["result"] == "done"][:10]
    real = sum(row["duration_s"] for row in last)
    return round(sum(row["expected_s"] for row in last) / real, 2) if real else None


if __name__ == "__main__":
    main()
