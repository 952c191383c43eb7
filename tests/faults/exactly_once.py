"""The campaign of exactly once: every (sink, mode) killed at every step of a batch, again and again.

A seed is a round: one driver hosts all streams, and one SIGKILL gives a trial for each of them, one JSON line each.
Which step comes when follows from the seed, so that as many rounds as a stream has steps visit each step once. A seed
that stands in the results is not run again.

    python tests/faults/exactly_once.py --seeds 0-44 --rest 1-5

`--on rest` has the tables of Iceberg in a REST catalog, of Iceberg's own handlers, with results of its own.
`--rest` are the seeds of what is not a kill: zombies, mischief behind a stream's back, a bad network, an object store
that hangs or whose answers are lost, a REST catalog that does so or refuses the login for a while, and a stream written
by hand, whose known double must be found.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from campaign import ROOT, known, seeds
from exactly_once_maintenance import Maintenance
from exactly_once_mischief import Mischiefs
from exactly_once_native import Native
from exactly_once_network import Network
from exactly_once_rest import RestCatalog
from exactly_once_round import Rounds
from exactly_once_store import Store
from exactly_once_streams import BY_NAME, Kind
from exactly_once_zombies import KINDS as ZOMBIES
from exactly_once_zombies import Zombies
from reference_rest import on_disk
from world import World, on_stack

from lakeward.platform.runtime import Home

RESULTS = {
    "embedded": ROOT / "docs" / "explanation" / "exactly-once.jsonl",
    "rest": ROOT / "docs" / "explanation" / "exactly-once-rest.jsonl",
}
"""Catalog -> where its results are."""
REST = ("mischief", "zombie", "network", "store", "catalog", "native")
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


class Trials:
    """Runs what is missing in one world, and keeps each trial as soon as it is known."""

    def __init__(self, world: World, results: Path, kinds: Sequence[Kind]) -> None:
        self._world, self._results = world, results
        self._zombies = [kind for kind in ZOMBIES if kind in kinds]
        self._maintenance = Maintenance(world.runtime, world.folder / "maintenance")

    def rest(self, kind: str, seed: int) -> None:
        """Trials that are no kills."""
        began = time.monotonic()
        runs: dict[str, Callable[[int], list[dict[str, Any]]]] = {
            "zombie": partial(Zombies(self._world, self._maintenance).run, kinds=self._zombies),
            "mischief": Mischiefs(self._world, self._maintenance).run,
            "network": Network(self._world).run,
            "store": Store(self._world).run,
            "catalog": RestCatalog(self._world).run,
            "native": Native(self._world, self._maintenance).run,
        }
        self._keep(runs[kind](seed))
        print(f"{kind} {seed}: {time.monotonic() - began:.0f} s", flush=True)

    def rounds(self, wanted: Sequence[int], kinds: Sequence[Kind], plant: str | None = None) -> None:
        """Rounds of kills."""
        rounds: Rounds | None = None
        try:
            for number, seed in enumerate(wanted):
                if rounds is None or number % TOGETHER == 0:
                    if rounds is not None:
                        rounds.remove()
                    rounds = Rounds(self._world, kinds, self._maintenance, f"r{seed}", plant)
                lines = rounds.run(seed, steps_of(seed, kinds))
                self._keep(lines)
                print(f"round {seed}: {lines[0]['round']}", flush=True)
                if not all(line["ok"] for line in lines):
                    rounds.remove()
                    rounds = None
        finally:
            if rounds is not None:
                rounds.stop()

    def close(self) -> None:
        """End what was started."""
        try:
            self._maintenance.close()
        finally:
            self._world.end()

    def _keep(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._results.parent.mkdir(parents=True, exist_ok=True)
        with self._results.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        for line in lines:
            told = line.get("cell") or line.get("what") or line["wished"]
            print(f"{line['seed']}: {told}{'' if line['ok'] else ' FAILED ' + '; '.join(line['problems'])}", flush=True)


def table(lines: Sequence[Mapping[str, Any]], kinds: Sequence[Kind]) -> str:
    """How many trials each cell has."""
    counts = Counter((line["stream"], line["cell"]) for line in lines if "cell" in line)
    said = []
    for kind in kinds:
        cells = ", ".join(f"{step} {counts[kind.name, step]}" for step in kind.steps)
        said.append(f"{kind.name}: {cells}; elsewhere {counts[kind.name, 'none']}")
    return "\n".join(said)


def main(argv: list[str] | None = None) -> int:
    """Run the rounds that are missing; exit code 0 only if every trial held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("0-44"), help="rounds of kills, e.g. 0-44 or 1,4,7-9")
    parser.add_argument("--rest", type=seeds, default=seeds("1-5"), help="seeds of what is no kill")
    parser.add_argument("--kinds", default=",".join(REST), help="what of the rest, with commas between")
    parser.add_argument("--on", choices=list(RESULTS), default="embedded", help="the catalog of the tables")
    parser.add_argument("--streams", default=",".join(BY_NAME), help="by name, with commas between")
    parser.add_argument("--results", type=Path, help="JSON lines; what is there is not run again")
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "exactly-once")
    parser.add_argument("--plant", choices=["replay", "skip"], help="take a guard away; give results of their own")
    options = parser.parse_args(argv)
    results = options.results or RESULTS[options.on]
    if options.plant and options.results is None:
        parser.error("--plant needs --results FILE: what is planted is no result")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with it
    kinds = [BY_NAME[name] for name in options.streams.split(",")]
    if options.on == "rest":
        kinds = [kind for kind in kinds if kind.sink == "iceberg"]
    lines = known(results)
    missing = [seed for seed in options.seeds if any(f"{seed}/{kind.name}" not in lines for kind in kinds)]
    begun = {str(name).partition("/")[0] for name in lines}
    rest = [(kind, seed) for seed in options.rest for kind in options.kinds.split(",") if f"{kind} {seed}" not in begun]
    if options.plant:
        rest = []
    if missing or rest:
        folder = options.home / f"{int(time.time())}"
        with on_stack(Home(options.home)) as make, ExitStack() as ended:
            world = make(folder)
            if options.on == "rest":
                lake = ended.enter_context(on_disk(folder / "rest", folder / "tables"))
                world = replace(world, runtime=world.runtime.model_copy(update={"lake": lake}))
            trials = Trials(world, results, kinds)
            try:
                for kind, seed in rest:
                    trials.rest(kind, seed)
                trials.rounds(missing, kinds, options.plant)
            finally:
                trials.close()
        lines = known(results)
    print(table(list(lines.values()), kinds))
    bad = [name for name, line in lines.items() if not line["ok"]]
    print(f"{len(lines)} trials, {len(bad)} did not hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
