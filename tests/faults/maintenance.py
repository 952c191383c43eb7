"""Maintenance killed at each step of each action, and taken over by another: ten seconds a trial.

PostgreSQL and a Spark Connect server start in a home of their own. Goes on where it was interrupted: each trial is a
line of the results.

    python tests/faults/maintenance.py [--seeds 5] [--results FILE]
    python tests/faults/maintenance.py --planted       each guard taken out must be found
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from publications import connect_stack

from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Home, Runtime

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
RESULTS = ROOT / "docs" / "explanation" / "maintenance-kills.jsonl"


def campaign(runtime: Runtime, seeds: range, results: Path) -> None:
    """Run the trials that are missing."""
    import maintenance_kills as iceberg
    import maintenance_kills_delta as delta
    import operation_kills as operations

    known = {row["seed"] for row in _read(results)}
    drawn = [each for seed in seeds for kind in (iceberg, delta, operations) for each in kind.trials(seed)]
    missing = [trial for trial in drawn if trial.name not in known]
    with tempfile.TemporaryDirectory() as folder, session(runtime) as spark, results.open("a") as file:
        rigs = {
            "iceberg": iceberg.Rig(runtime, Path(folder) / "iceberg", spark),
            "delta": delta.DeltaRig(runtime, Path(folder) / "delta", spark),
            operations.FORMAT: operations.OperationRig(runtime, Path(folder) / "operations"),
        }
        for trial in missing:
            file.write(json.dumps(rigs[trial.format].run(trial)) + "\n")
            file.flush()


def planted(runtime: Runtime, seeds: int) -> int:
    """For each guard taken out, the first trial that finds it.

    Returns:
        How many are not found.
    """
    from maintainer import PLANTED
    from maintenance_kills import Rig, trials

    missed = 0
    for fault in PLANTED:
        with tempfile.TemporaryDirectory() as folder, session(runtime) as spark:
            rig = Rig(runtime, Path(folder) / "project", spark, fault)
            rows = (rig.run(trial) for seed in range(seeds) for trial in trials(seed))
            first = next((row for row in rows if not row["ok"]), None)
        missed += first is None
        print(f"{fault}: {first or 'not found'}", flush=True)
    return missed


def told(rows: list[dict[str, Any]]) -> str:
    """The campaign in a few lines."""
    cells = Counter(row["seed"].partition("/")[2] for row in rows if row["killed"])
    wrong = [f"{row['seed']}: {row['problems']}" for row in rows if not row["ok"]]
    killed = sum(row["killed"] for row in rows)
    least = min(cells.values(), default=0)
    text = f"{len(rows)} trials, {killed} killed, {len(cells)} steps of actions, each {least} times or more, "
    return "\n".join([f"{text}{len(wrong)} wrong", *wrong])


def _read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def main() -> int:
    """1 when something did not hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "maintenance-kills")
    options.add_argument("--planted", action="store_true", help="each guard taken out must be found")
    args = options.parse_args()
    with connect_stack(Home(args.home)) as runtime:
        if args.planted:
            return 1 if planted(runtime, args.seeds) else 0
        campaign(runtime, range(args.first, args.first + args.seeds), args.results)
    rows = _read(args.results)
    print(told(rows))
    return 1 if any(not row["ok"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
