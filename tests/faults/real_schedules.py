"""Random schedules of one table on real Iceberg tables: about two CPU-seconds a schedule, no engine.

Goes on where it was interrupted: each seed is a line of the results.

    python tests/faults/real_schedules.py [--seeds 100] [--results FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import process_time

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from real_table_schedule import RealSchedule  # noqa: E402  # found by the path added above

RESULTS = ROOT / "docs" / "explanation" / "real-schedules.jsonl"


def one(seed: int) -> dict[str, object]:
    """The schedule of a seed, on a table that is gone afterwards."""
    begun = process_time()
    with tempfile.TemporaryDirectory(prefix="lakeward-schedule-") as folder:
        schedule = RealSchedule(seed, root=Path(folder))
        wrong = schedule.run()
    return {
        "seed": seed, "ok": not wrong, "wrong": wrong, "snapshots_expired": schedule.expired,
        "files_taken": schedule.taken, "steps": schedule.log, "cpu_s": round(process_time() - begun, 2),
    }  # fmt: skip


def main() -> int:
    """Run what is missing; 1 when a schedule lost something."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--results", type=Path, default=RESULTS)
    args = options.parse_args()
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    known = [json.loads(line) for line in lines]
    done = {row["seed"] for row in known}
    with args.results.open("a") as file:
        for seed in (each for each in range(args.first, args.first + args.seeds) if each not in done):
            row = one(seed)
            known.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    wrong = [row["wrong"] for row in known if not row["ok"]]
    print(
        f"{len(known)} schedules, {sum(row['snapshots_expired'] for row in known)} snapshots expired, "
        f"{sum(row['files_taken'] for row in known)} files taken as orphans, {len(wrong)} wrong"
    )
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
