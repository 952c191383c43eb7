"""10,000 random schedules of one table against the guards of expiry and orphan removal; minutes of one core, no engine.

Goes on where it was interrupted: each block of a hundred seeds is a line of the results.

    python tests/faults/schedules.py [--seeds 10000] [--results FILE] [--planted]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from time import process_time

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from table_schedule import PLANTED, Schedule  # noqa: E402  # found by the path added above

RESULTS = ROOT / "docs" / "explanation" / "schedules.jsonl"
BLOCK = 100


def block(first: int) -> dict[str, object]:
    """The schedules of a hundred seeds."""
    begun = process_time()
    steps: Counter[str] = Counter()
    wrong, expired, taken = [], 0, 0
    for seed in range(first, first + BLOCK):
        schedule = Schedule(seed)
        found = schedule.run()
        wrong += [found] if found else []
        steps.update(schedule.log)
        expired, taken = expired + schedule.expired, taken + schedule.taken
    return {
        "seed": f"{first}-{first + BLOCK - 1}", "ok": not wrong, "wrong": wrong,
        "snapshots_expired": expired, "orphans_taken": taken,
        "steps": dict(sorted(steps.items())), "cpu_s": round(process_time() - begun, 2),
    }  # fmt: skip


def main() -> int:
    """Run what is missing; 1 when a schedule lost something."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=10_000)
    options.add_argument("--first", type=int, default=0, help="a multiple of a hundred")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--planted", action="store_true", help="the first seed that finds each planted fault")
    args = options.parse_args()
    if args.planted:
        missed = 0
        for planted in PLANTED:
            found = next((seed for seed in range(args.seeds) if Schedule(seed, planted).run()), None)
            missed += found is None
            print(f"{planted}: {'not found' if found is None else f'seed {found}'}", flush=True)
        return 1 if missed else 0
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    known = [json.loads(line) for line in lines]
    done = {int(row["seed"].partition("-")[0]) for row in known}
    with args.results.open("a") as file:
        for first in (each for each in range(args.first, args.first + args.seeds, BLOCK) if each not in done):
            row = block(first)
            known.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    wrong = [each for row in known for each in row["wrong"]]
    print(
        f"{len(known) * BLOCK} schedules, {sum(row['snapshots_expired'] for row in known)} snapshots expired, "
        f"{sum(row['orphans_taken'] for row in known)} orphans taken, {len(wrong)} wrong"
    )
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
