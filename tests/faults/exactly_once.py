"""The campaign of exactly once: every (sink, mode) killed at every step of a batch, again and again.

A seed is a round: one driver hosts all streams, and one SIGKILL gives a trial for each of them, one JSON line each.
Which step comes when follows from the seed, so that as many rounds as a stream has steps visit each step once. A seed
that stands in the results is not run again.

    python tests/faults/exactly_once.py --seeds 1-45
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from campaign import ROOT, known, seeds
from exactly_once_maintenance import Maintenance
from exactly_once_round import Rounds
from exactly_once_streams import ALL, BY_NAME, Kind
from world import World, on_stack

from lakeward.runtime import Home

RESULTS = ROOT / "docs" / "explanation" / "exactly-once.jsonl"
TOGETHER = 5
"""Rounds on the same streams; then new ones begin at batch 0."""


def steps_of(seed: int, kinds: Sequence[Kind]) -> dict[str, str]:
    """Kind -> its step in this round: in as many rounds as it has steps, each once, in an order of chance."""
    found = {}
    for kind in kinds:
        block, at = divmod(seed, len(kind.steps))
        order = list(kind.steps)
        random.Random(f"{block}/{kind.name}").shuffle(order)
        found[kind.name] = order[at]
    return found


def run(world: World, wanted: Sequence[int], kinds: Sequence[Kind], results: Path, plant: str | None = None) -> None:
    """Run rounds and keep each trial as soon as it is known."""
    maintenance = Maintenance(world.runtime, world.folder / "maintenance")
    rounds: Rounds | None = None
    try:
        for number, seed in enumerate(wanted):
            if rounds is None or number % TOGETHER == 0:
                if rounds is not None:
                    rounds.remove()
                rounds = Rounds(world, kinds, maintenance, f"r{seed}", plant)
            lines = rounds.run(seed, steps_of(seed, kinds))
            keep(results, lines)
            for line in lines:
                print(
                    f"{line['seed']}: {line['cell']}{'' if line['ok'] else ' FAILED ' + '; '.join(line['problems'])}",
                    flush=True,
                )
            print(f"round {seed}: {lines[0]['round']}", flush=True)
            if not all(line["ok"] for line in lines):
                rounds.remove()
                rounds = None
    finally:
        if rounds is not None:
            rounds.stop()
        maintenance.close()
        world.end()


def keep(results: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """How many trials each cell has."""
    counts = Counter((line["stream"], line["cell"]) for line in lines if "cell" in line)
    said = []
    for kind in ALL:
        cells = ", ".join(f"{step} {counts[kind.name, step]}" for step in kind.steps)
        said.append(f"{kind.name}: {cells}; elsewhere {counts[kind.name, 'none']}")
    return "\n".join(said)


def main(argv: list[str] | None = None) -> int:
    """Run the rounds that are missing; exit code 0 only if every trial held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-45"), help="rounds, e.g. 1-45 or 1,4,7-9")
    parser.add_argument("--streams", default=",".join(BY_NAME), help="by name, with commas between")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines; what stands there is not run again")
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "exactly-once")
    parser.add_argument("--plant", choices=["replay", "skip"], help="take a guard away; give results of their own")
    asked = parser.parse_args(argv)
    if asked.plant and asked.results == RESULTS:
        parser.error("--plant needs --results FILE: what is planted is no result")
    kinds = [BY_NAME[name] for name in asked.streams.split(",")]
    lines = known(asked.results)
    missing = [seed for seed in asked.seeds if any(f"{seed}/{kind.name}" not in lines for kind in kinds)]
    if missing:
        with on_stack(Home(asked.home)) as make:
            run(make(asked.home / f"from-{missing[0]}"), missing, kinds, asked.results, asked.plant)
        lines = known(asked.results)
    print(table(list(lines.values())))
    bad = [name for name, line in lines.items() if not line["ok"]]
    print(f"{len(lines)} trials, {len(bad)} did not hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
