"""Random schedules of tables and their check runs: does `verified` ever show what nobody proved? Seconds a schedule.

PostgreSQL and a Spark Connect server start in a home of their own. Goes on where it was interrupted: each seed is a
line of the results.

    python tests/faults/publications.py [--seeds 200] [--results FILE]
    python tests/faults/publications.py --first 1000 --seeds 40      tables of format version 3
    python tests/faults/publications.py --planted       the first seed that finds each guard taken out
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.quality.runs.process import environment
from lakeward.stack.stack import Stack

ROOT = Path(__file__).parents[2]
SCHEDULES = ROOT / "tests" / "support" / "publication_schedule.py"
RESULTS = ROOT / "docs" / "explanation" / "publications.jsonl"
TOGETHER = 25  # seeds a process
WIDER, TRACED = 170, 1000
"""From these seeds on the schedules have all events, and tables have format version 3 (the same names there)."""


@contextmanager
def connect_stack(home: Home) -> Iterator[Runtime]:
    """A registry, a catalog and a Spark Connect server."""
    stack = Stack(Project(ROOT), home)
    try:
        stack.up(("postgres", "connect"), None, print)
        yield Runtime.load(home.runtime_file)
    finally:
        stack.down(None, print)


def schedules(runtime: Runtime, *words: str) -> Iterator[dict[str, Any]]:
    """The lines of a process set up as the checking process is.

    Raises:
        RuntimeError: it ended with an error.
    """
    with subprocess.Popen(
        [sys.executable, str(SCHEDULES), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment(runtime),
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(runtime.model_dump_json())
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise RuntimeError(f"the schedules {' '.join(words)} ended with exit code {process.returncode}")


def faults(runtime: Runtime, first: int, seeds: int) -> int:
    """For each guard taken out, what finds it; without a first seed, by schedules of either set of events.

    Returns:
        How many are not found.
    """
    missed = 0
    asked = f"{first}-{first + seeds - 1}" + ("" if first else f",{WIDER}-{WIDER + seeds - 1}")
    for fault in json.loads(subprocess.check_output([sys.executable, str(SCHEDULES), "faults"])):
        rows = list(schedules(runtime, f"{asked}:{fault}"))
        found = rows and not rows[-1]["ok"]
        missed += not found
        print(f"{fault}: {'seed {seed}: {wrong}'.format(**rows[-1]) if found else 'not found'}", flush=True)
    return missed


def main() -> int:
    """Run what is missing; 1 when something wrong was published, or nothing finds a guard taken out."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--first", type=int, default=0, help="seeds from 1000 on: tables of format version 3")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "publications")
    options.add_argument("--planted", action="store_true", help="the first seed that finds each guard taken out")
    args = options.parse_args()
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    known = {row["seed"]: row for row in map(json.loads, lines)}
    missing = [seed for seed in range(args.first, args.first + args.seeds) if seed not in known]
    if args.planted:
        with connect_stack(Home(args.home)) as runtime:
            return 1 if faults(runtime, args.first, args.seeds) else 0
    if missing:
        with connect_stack(Home(args.home)) as runtime, args.results.open("a") as file:
            while missing:
                part, missing = missing[:TOGETHER], missing[TOGETHER:]
                for row in schedules(runtime, ",".join(map(str, part))):
                    known[row["seed"]] = row
                    file.write(json.dumps(row) + "\n")
                    file.flush()
    print(told(list(known.values())))
    return 1 if any(not row["ok"] for row in known.values()) else 0


def told(rows: list[dict[str, Any]]) -> str:
    """The campaign in a few lines."""
    events: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for row in rows:
        events.update(row["steps"])
        verdicts.update(row["verdicts"])
    killed = sum((Counter(row["killed"]) for row in rows), Counter())
    wrong = [f"seed {row['seed']}: {row['wrong']}" for row in rows if not row["ok"]]
    text = [
        f"{len(rows)} schedules, {sum(row['published'] for row in rows)} snapshots published, {len(wrong)} wrong",
        f"runs: {dict(sorted(verdicts.items()))}; killed: {dict(sorted(killed.items()))}",
        f"events: {dict(sorted(events.items()))}",
        *wrong,
    ]
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main())
