"""A bad network between a driver and its broker, its catalog, or the database it lands in; and readers meanwhile.

The driver reaches both through proxies: the answer of a commit is lost, a link hangs for a while, or is reset.
Its batches must be whole at every moment: a reader never sees a number of rows at which no batch ends.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from exactly_once_broker import broker
from exactly_once_evidence import Stream
from exactly_once_oracle import judge
from exactly_once_round import Rounds
from exactly_once_streams import BY_NAME
from proxy import Proxy
from world import World

from lakeward.platform.runtime import Runtime
from lakeward.stack import private

KINDS = tuple(
    BY_NAME[name]
    for name in ("iceberg-append", "iceberg-upsert", "iceberg-complete", "delta-append", "postgres-append",
                 "postgres-upsert")
)  # fmt: skip
LOST = {"answer of a catalog commit lost": rb"\.metadata\.json", "answer of a database commit lost": b"WITH moved AS"}
LINKS = ("PostgreSQL hangs", "PostgreSQL resets", "the broker hangs", "the broker resets")
EVENTS = (*LOST, *LINKS)


class Network:
    """Trials behind one proxy: each an event of the network, beside landing batches."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, seed: int, events: Sequence[str] = EVENTS) -> list[dict[str, Any]]:
        """One driver; a line for each event."""
        with broker(self._world.folder / f"broker-{seed}") as (direct, way):
            world = replace(self._world, kafka=direct, started=[])
            return self._run(seed, world, way, events)

    def _run(self, seed: int, world: World, broker: Proxy, events: Sequence[str]) -> list[dict[str, Any]]:
        dice, whole = random.Random(f"{seed}/network"), world.runtime
        rounds = Rounds(world, KINDS, name=f"n{seed}")
        database = Proxy(whole.lake.port)
        reader = Reader(world, rounds)
        try:
            rounds.produce(dice, dice.randint(20, 40))
            world.runtime = through(database, broker, whole, world)
            rounds.launch()
            world.runtime = whole
            rounds.land()
            reader.start()
            ways = {event: broker if "broker" in event else database for event in dice.sample(events, len(events))}
            return [
                tried("network", f"{seed}/{number}", event, ways[event], LOST.get(event), rounds, reader, dice)
                for number, event in enumerate(ways)
            ]
        finally:
            world.runtime = whole
            reader.stop()
            rounds.remove()
            database.close()


def tried(
    kind: str,
    name: str,
    event: str,
    way: Proxy,
    lost: bytes | None,
    rounds: Rounds,
    reader: Reader,
    dice: random.Random,
) -> dict[str, Any]:
    """Records, an event on the way to where they go, and what stands there in the end: a line of the results.

    Args:
        lost: the pattern of the request whose answer gets lost; None: the link hangs or resets.
    """
    before, pause = way.lost, dice.uniform(0.5, 8.0)
    if lost is not None:
        way.lose_answer(lost)
    rounds.produce(dice, dice.randint(20, 60))
    if lost is None:
        time.sleep(dice.uniform(0.0, 2.0))  # somewhere in a batch
        way.set("hole" if event.endswith("hangs") else "reset")
        time.sleep(pause)
        way.set("pass")
    rounds.land()
    problems = ["no answer was lost"] if lost is not None and way.lost == before else []
    for each in rounds.streams:
        if blocked := rounds.blocked(each):
            problems.append(f"{each.kind.name} is blocked: {blocked}")
        found = judge(each.kind, rounds.records, rounds.rows(each))
        problems += [f"{each.kind.name} {what}" for what in found.problems]
    problems += reader.torn()
    return {
        "seed": f"{kind} {name}", "ok": not problems, "kind": kind, "what": event,
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "records": len(rounds.records),
        "looked": reader.looked, "problems": problems,
    }  # fmt: skip


class Reader(threading.Thread):
    """Reads tables all the time, and keeps how many rows it saw."""

    def __init__(self, world: World, rounds: Rounds) -> None:
        super().__init__(daemon=True)
        self._world, self._streams = world, [each for each in rounds.streams if each.kind.proof == "positions"]
        self._rounds, self._over = rounds, threading.Event()
        self._seen: dict[str, set[int]] = {each.name: set() for each in self._streams}
        self.looked = 0

    def run(self) -> None:
        """Until it is stopped."""
        lake = self._world.catalog()
        while not self._over.wait(0.2):
            for each in self._streams:
                self._seen[each.name].add(self._look(lake, each))
                self.looked += 1
        lake.close()

    def torn(self) -> list[str]:
        """Numbers of rows at which no batch of the checkpoint ends."""
        found = []
        for each in self._streams:
            batches, _ = self._rounds.inquest.batches(each)
            ends = {0, *(sum(self._rounds.inquest.ends(each, batch).values()) for batch in batches)}
            torn = sorted(self._seen[each.name] - ends)
            found += [f"{each.kind.name}: a reader saw {torn[:3]} rows, batches end at {sorted(ends)}"] if torn else []
        return found

    def stop(self) -> None:
        """End it."""
        self._over.set()
        if self.is_alive():
            self.join(60)

    def _look(self, lake: Any, stream: Stream) -> int:
        if stream.kind.sink == "iceberg":
            return int(lake.load_table(stream.table).scan().count())
        return len(self._rounds.rows(stream))


def through(database: Proxy, broker: Proxy, whole: Runtime, world: World) -> Runtime:
    """The runtime of a driver that reaches its broker, the lake's catalog and its sinks' database by proxies only."""
    lines = world.pgpass.read_text().splitlines()
    more = [line.replace(f":{whole.lake.port}:", f":{database.port}:", 1) for line in lines]
    passwords = private.write(world.folder / f"pgpass-{database.port}", "\n".join([*lines, *more, ""]))
    there = whole.postgres["there"].model_copy(update={"port": database.port})
    lake = whole.lake.model_copy(update={"port": database.port})
    kafka = {"lakeward_kafka": f"127.0.0.1:{broker.port}"}
    return whole.model_copy(update={"lake": lake, "postgres": {"there": there}, "pgpass": passwords, "kafka": kafka})
