"""What campaigns on one busy stack share: flights that never end, a driver that lands them, the proof at the end."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from campaign import ROOT, known
from sqlalchemy import func, select

from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka import position as positions
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.demo import flights
from lakeward.demo.check import FLIGHTS, TABLE, TOPIC
from lakeward.demo.flights import Record
from lakeward.demo.lake import DemoLake
from lakeward.demo.producer import Sender
from lakeward.demo.producing import Producing
from lakeward.demo.prove import Prover, Topic, ranges
from lakeward.demo.stand import DemoStack
from lakeward.platform.runtime import Home, Project
from lakeward.registry import batches, drivers

PER_SECOND = 40.0
PATIENCE_S = 600.0


class Watched:
    """One driver of a stand, seen through the registry."""

    def __init__(self, stand: DemoStack, driver: str) -> None:
        self.stand, self.driver = stand, driver

    def token(self) -> str:
        """Of the newest launch."""
        with self.stand.registry() as connection:
            return drivers.all_drivers(connection)[self.driver].token

    def now(self) -> datetime:
        """The registry's clock."""
        with self.stand.registry() as connection:
            return connection.execute(select(func.now())).scalar_one()  # type: ignore[no-any-return]  # a timestamp

    def when(self, what: str, so: Callable[[], Any], told: Callable[[], datetime] | None = None) -> datetime:
        """Wait until `so` gives something; the moment it gave, or that of `told`."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = so()
            if found is not None:
                return told() if told is not None else found  # type: ignore[no-any-return]  # `so` gave a moment
            if time.monotonic() > end:
                raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
            time.sleep(0.2)


class Busy(Watched):
    """A stand whose stream `flights` is to land all the time."""

    def __init__(self, stand: DemoStack) -> None:
        super().__init__(stand, stand.specs[FLIGHTS].driver)
        self._lake = DemoLake(stand.runtime)

    def landing(self) -> None:
        """Wait for two batches by the driver that runs now: it is past its start."""
        first = self.seq()
        self.when("batches land", lambda: self.seq() >= first + 2 or None, self.now)

    def seq(self) -> int:
        """How many batches the table has."""
        position = self._lake.position(TABLE, FLIGHTS)
        return position.seq if position else -1

    def prove(self) -> dict[str, Any]:
        """Everything produced, against the table, once the stream has come to the topic's end."""
        self.when("everything produced is landed", lambda: self._at_the_end() or None, self.now)
        prover = Prover(self.stand.bootstrap, self._lake, Topic.read(self.stand.bootstrap, TOPIC))
        with self.stand.registry() as connection:
            recorded = ranges(batches.newest(connection, FLIGHTS, limit=1_000_000), TOPIC)
        proof = prover.rows(self.stand.specs[FLIGHTS], recorded)
        names = ("produced", "landed", "quarantined", "missing", "duplicates")
        return {name: getattr(proof, name) for name in names} | {"wrong": list(proof.wrong)}

    def _at_the_end(self) -> bool:
        found = self._lake.position(TABLE, FLIGHTS)
        ends = broker.end_offsets(Cluster("lakeward_kafka", self.stand.bootstrap), [TOPIC])
        return found is not None and all(positions.behind(end, ends) == 0 for end in found.end.values())


def arguments_of(what: str | None, results: Path, home: str) -> argparse.ArgumentParser:
    """The options every such campaign has."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=results, help="JSON lines; what stands there is not run again")
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / home)
    return parser


def run(
    chosen: Sequence[Any], results: Path, home: Path, begin: Callable[[DemoStack], Callable[[Any], dict[str, Any]]]
) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """Run the trials that are missing on one busy stack, a JSON line each, then prove every row.

    Returns:
        The line of every chosen trial by its `seed`, and the proof: empty if nothing was left to run.
    """
    lines = known(results)
    wanted = [seed for seed in chosen if seed not in lines]
    proof: dict[str, Any] = {}
    if wanted:
        stand = DemoStack(Project(ROOT), Home(home), lambda line: print(line, flush=True))
        done = threading.Event()
        try:
            stand.up()
            with Producing(Sender(stand.bootstrap, TOPIC), _flow(done), PER_SECOND, done.set):
                busy, trial = Busy(stand), begin(stand)
                for seed in wanted:
                    lines[seed] = {"seed": seed, **trial(seed)}
                    append(results, lines[seed])
                done.set()
            proof = {"seed": f"proof after {wanted[-1]}", "ok": True, **busy.prove()}
            proof["ok"] = not (proof["wrong"] or proof["missing"] or proof["duplicates"])
            append(results, proof)
        finally:
            done.set()
            stand.down()
    return {seed: lines[seed] for seed in chosen if seed in lines}, proof


def append(results: Path, line: dict[str, Any]) -> None:
    """Keep one trial."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def _flow(done: threading.Event) -> Iterator[Record]:
    """Flights until somebody says so."""
    for record in flights.replay(flights.load(), seed=1, laps=None):
        if done.is_set():
            return
        yield record
