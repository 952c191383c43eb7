"""The campaign of duplicate launches: everybody starts at once, one runs, and the others land nothing.

A trial is a seed. A light one releases eight at a barrier, on a real registry and a real catalog; each does what comes
before landing, and whoever may land moves the table's position. They are either eight that saw the same picture and
want to launch the driver, or one launch that a backend started eight times. A heavy one is two whole drivers with
Spark: one launch started twice, or a launch whose successor comes at the same moment. One JSON line a trial; a seed
that stands there is not run again.

    python tests/faults/duplicates.py --seeds 1-200 --heavy 10
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from campaign import ROOT, known, seeds
from world import World, make_world, simple_stream

from lakeward.connectors.commit_protocol.position import Position, Totals, key, parse
from lakeward.connectors.iceberg import position_store
from lakeward.driver.registry_link import RegistryLink
from lakeward.platform.errors import Fenced, Refused, Transient
from lakeward.platform.runtime import Home, Launch, Project
from lakeward.registry import drivers, engine
from lakeward.stack.kafka import create_topic
from lakeward.stack.stack import Stack

RESULTS = ROOT / "docs" / "explanation" / "duplicates.jsonl"
CONTENDERS = 8
ROWS = 200


class Trials:
    """Trials in worlds of their own.

    Args:
        make: gives the world of one trial, below the folder it is given.
        folder: where they lie.
    """

    def __init__(self, make: Callable[[Path], World], folder: Path) -> None:
        self._make, self._folder = make, folder

    @classmethod
    def on(cls, home: Home, folder: Path) -> Trials:
        """Trials on one stack of a broker and a PostgreSQL."""
        site = Stack(Project(ROOT), home).site()
        runtime = site.runtime()
        broker = SimpleNamespace(bootstrap=site.kafka)
        server = SimpleNamespace(host=runtime.lake.host, port=runtime.lake.port, user=runtime.lake.user)
        url, passwords = home.registry_url_file.read_text().strip(), home.pgpass
        engine.migrate(url, passwords)
        return cls(lambda place: make_world(server, passwords, url, runtime.lake.database, broker, place), folder)

    def run(self, seed: int, *, heavy: bool) -> dict[str, Any]:
        """One trial."""
        dice = random.Random(f"{seed}/duplicates")
        twice = dice.random() < 0.5
        world = self._make(self._folder / f"{seed}")
        world.name = f"dup{seed}"
        try:
            found = self._heavy(world, seed, twice) if heavy else self._light(world, seed, twice)
        finally:
            world.end()
        return {
            "seed": seed, "at": datetime.now(UTC).isoformat(timespec="seconds"), "heavy": heavy,
            "started": "one launch, more than once" if twice else "launches of their own", **found,
        }  # fmt: skip

    def _light(self, world: World, seed: int, twice: bool) -> dict[str, Any]:
        stream, table = f"dup{seed}", f"dup.t{seed}"
        lake = world.catalog()
        lake.create_namespace_if_not_exists("dup")
        made = lake.create_table(table, pa.schema([("n", pa.int64())]))
        first = Position(seq=1, query_id="q", batch=0, end={}, begin={}, totals=Totals())
        position_store.write_position(lake, table, stream, first, None)
        expected = made.refresh().properties[key(stream)]
        if twice:
            assert self._intend(world, f"{seed}/one launch")
        barrier = threading.Barrier(CONTENDERS)

        def contend(number: int) -> tuple[bool, bool]:
            """Whether it may land, and whether it did."""
            token = f"{seed}/one launch" if twice else f"{seed}/launch {number}"
            launch = Launch(driver=world.name, token=token, folder=self._folder, runtime=world.runtime)
            link, mine = RegistryLink(launch, world.url, f"contender {number}"), world.catalog()
            barrier.wait(60)
            try:
                if not (twice or self._intend(world, token)) or not link.claim(0.0):
                    return False, False
                after = first.model_copy(update={"seq": 2, "batch": 1, "attempt": f"{number}"})
                position_store.write_position(mine, table, stream, after, expected)
            except (Fenced, Refused, Transient):
                return True, False
            finally:
                mine.close()
            return True, True

        with ThreadPoolExecutor(CONTENDERS) as pool:
            outcomes = list(pool.map(contend, range(CONTENDERS)))
        rights = [number for number, (right, _) in enumerate(outcomes) if right]
        published = [number for number, (_, wrote) in enumerate(outcomes) if wrote]
        end = parse(made.refresh().properties[key(stream)], stream, table)
        lake.drop_table(table)
        problems = []
        if len(rights) != 1:
            problems.append(f"{len(rights)} had the right to run")
        if len(published) != 1 or (end.seq, end.attempt) != (2, f"{published[0]}"):
            problems.append(f"published by {published}; the table says seq {end.seq} of {end.attempt}")
        return {
            "ok": not problems,
            "contenders": CONTENDERS,
            "ran": len(rights),
            "published": len(published),
            "problems": problems,
        }

    @staticmethod
    def _intend(world: World, token: str) -> bool:
        with world.connect() as connection:
            return drivers.record_intent(connection, world.name, token=token, previous=None, backend="local")

    def _heavy(self, world: World, seed: int, twice: bool) -> dict[str, Any]:
        stream, table, topic = f"dup{seed}", f"dup.t{seed}", f"dup-{seed}"
        with suppress(Refused):
            create_topic(world.kafka.bootstrap, topic, 1)
        world.deploy(simple_stream(stream, topic, table))
        world.numbers(topic, range(ROWS))
        tokens = ["same", "same"] if twice else ["one", "two"]
        barrier = threading.Barrier(2)
        intents = threading.Lock()

        def launch(number: int) -> Any:
            barrier.wait(60)
            with intents:  # a launch replaces the one it read; which comes last is chance
                return world.launch(
                    token=f"{seed}/{tokens[number]}", intend=not (twice and world.started), folder=f"{number}"
                )

        with ThreadPoolExecutor(2) as pool:
            pair = list(pool.map(launch, range(2)))
        world.wait_for("one of two to end", lambda: [each for each in pair if each.process.poll() is not None])
        losers = [each for each in pair if each.process.poll() is not None]
        world.wait_landed(table, stream, ROWS)
        winner = next((each for each in pair if each not in losers), None)
        codes = [each.process.returncode for each in losers]
        ended = winner.terminate() if winner else None
        rows = sorted(row["n"] for row in world.rows(table))
        landed = [len(each.events("batch landed")) for each in losers]
        problems = []
        if codes != [75] or ended != 0:
            problems.append(f"the losers ended {codes}, the winner {ended}")
        if rows != list(range(ROWS)):
            problems.append(f"{len(rows)} rows, {len(set(rows))} different, of {ROWS}")
        if any(landed):
            problems.append(f"the loser landed {landed} batches")
        return {"ok": not problems, "contenders": 2, "ran": 2 - len(losers), "published": 1, "problems": problems}


def main(argv: list[str] | None = None) -> int:
    """Run the trials that are missing; exit code 0 only if every one held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-200"), help="e.g. 1-200 or 1,4,7-9")
    parser.add_argument("--heavy", type=int, default=10, help="seeds up to this one start whole drivers")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines; what stands there is not run again")
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "duplicates")
    arguments = parser.parse_args(argv)
    results = known(arguments.results)
    wanted = [seed for seed in arguments.seeds if seed not in results]
    if wanted:
        home = Home(arguments.home)
        stack = Stack(Project(ROOT), home)
        try:
            stack.up(["postgres", "kafka"], None, print)
            trials = Trials.on(home, arguments.home / "trials")
            for seed in wanted:
                results[seed] = trials.run(seed, heavy=seed <= arguments.heavy)
                with arguments.results.open("a") as file:
                    file.write(json.dumps(results[seed]) + "\n")
                print(json.dumps(results[seed]), flush=True)
        finally:
            stack.down(None, print)
    chosen = [results[seed] for seed in arguments.seeds if seed in results]
    bad = [line for line in chosen if not line["ok"]]
    print(f"{len(chosen)} trials, {sum(line['heavy'] for line in chosen)} with Spark, {len(bad)} did not hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
