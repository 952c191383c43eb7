"""Random schedules of one stream's table in a real REST catalog: a driver, its zombie, a person, strangers.

Each seed has a table of its own and three batches. While one lands, one other thing happens at a drawn step of it. At
the end each value must be in the table once, and the count of batches must never have fallen. Goes on where it was
interrupted: each seed is a line of the results.

    python tests/faults/rest_schedules.py [--server seaweedfs|handlers] [--seeds 300] [--first 0] [--results FILE]
        [--unfenced] [--seconds 600]

`--unfenced` takes the stream's tag out of every commit: the schedules must then find what the tag prevents.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from rest_fence_program import ROWS, STREAM, Races, property_only, started

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import lossy_catalog
import rest_servers

from lakeward.connectors.commit_protocol.position import key
from lakeward.connectors.iceberg import fence, position_store, publish
from lakeward.telemetry import failpoints

RESULTS = Path(__file__).parents[2] / "docs" / "explanation" / "rest-schedules.jsonl"
BATCHES, TRIES = 3, 8
STEPS = ("after-check", "after-stage", "before-publish")
EVENTS = ("zombie", "compacted", "expired", "answers", "moved", "moved-meanwhile", "moved-in-spark", "rolled-back")
ENDED = ("landed", "already")


class Schedule:
    """One seed: `run` returns what was wrong; empty if nothing was."""

    def __init__(self, races: Races, seed: int) -> None:
        self.races, self.dice = races, random.Random(f"rest/{seed}")
        self.log: list[str] = []
        self.highest = 0

    def run(self) -> str:
        for batch in range(BATCHES):
            event = self.dice.choice(EVENTS[:-1] if batch == 0 else EVENTS)
            if event.startswith(("moved", "rolled")) and batch == 0:
                event = "zombie"  # there is no position yet
            self.log.append(event)
            if event == "rolled-back":
                return self.roll_back(batch)
            getattr(self, event.replace("-", "_"))(batch)
            self.finish(batch)
            if wrong := self.fallen():
                return wrong
        return self.judge(range(ROWS * BATCHES))

    def finish(self, batch: int) -> None:
        """Land the batch as the drivers that are started next."""
        for _ in range(TRIES):
            outcome = self.races.land(batch)
            self.log.append(outcome)
            if outcome in ENDED:
                return

    def fallen(self) -> str:
        now = self.races.position().seq
        if now < self.highest:
            return f"the count of batches fell from {self.highest} to {now}"
        self.highest = now
        return ""

    def judge(self, expected: range) -> str:
        found = Counter(self.races.left()["values"])
        doubled = sorted(value for value, times in found.items() if times > 1)
        lost = sorted(set(expected) - set(found))
        return ", ".join(f"{what} {values}" for what, values in (("doubled", doubled), ("lost", lost)) if values)

    def meanwhile(self, batch: int, act: Any) -> None:
        """Land the batch, and do something at a step of it."""
        step, reached = self.dice.choice(STEPS), list[bool]()

        def hook() -> None:
            if not reached:
                reached.append(True)
                act()

        with failpoints.on(step, hook):
            self.log.append(f"{step}: {self.races.land(batch)}")

    def zombie(self, batch: int) -> None:
        self.meanwhile(batch, lambda: self.log.append(f"zombie {self.races.land(batch)}"))

    def compacted(self, batch: int) -> None:
        self.meanwhile(batch, lambda: self.maintain("rewrite_data_files", "options => map('rewrite-all','true')"))

    def expired(self, batch: int) -> None:
        self.meanwhile(batch, lambda: self.maintain("expire_snapshots", "retain_last => 1"))

    def maintain(self, procedure: str, options: str) -> None:
        with suppress(Exception):  # losing a race against the writers is part of it
            self.races.call(f"{procedure}(table => '{self.races.table}', {options})")

    def answers(self, batch: int) -> None:
        """The server commits, and answers 409 or 5xx, or nothing."""
        proxy = self.races.proxy
        proxy.spoil(*(self.dice.choice(("", *lossy_catalog.FAULTS)) for _ in range(3)))
        self.log.append(self.races.land(batch))
        self.log += proxy.done
        proxy.spoil()

    def _again(self) -> tuple[Any, str]:
        """The position as a person writes it again, and as it is."""
        raw = str(self.races.metadata().properties()[key(STREAM)])
        now = self.races.position()
        return now.model_copy(update={"seq": now.seq + 1, "query_id": "", "batch": -1, "attempt": "reset/1"}), raw

    def _write(self, new: Any, raw: str) -> None:
        try:
            position_store.write_position(self.races.catalog, self.races.table, STREAM, new, raw)
        except Exception as error:  # noqa: BLE001  # its kind is the outcome
            self.log.append(type(error).__name__)
        else:
            self.log.append("written")

    def moved(self, batch: int) -> None:
        """A person moves the position while a driver lands."""
        new, raw = self._again()
        self.meanwhile(batch, lambda: self._write(new, raw))

    def moved_meanwhile(self, batch: int) -> None:
        """A batch lands between the reading and the commit of a position that a person moves, without a driver."""
        new, raw = self._again()
        with failpoints.on("before-position", self._once(batch)):
            self._write(new, raw)

    def moved_in_spark(self, batch: int) -> None:
        """Likewise in a driver."""
        new, raw = self._again()
        with failpoints.on("before-publish", self._once(batch)):
            try:
                publish.write_position(self.races.spark, self.races.table, STREAM, new, raw)
            except Exception as error:  # noqa: BLE001  # its kind is the outcome
                self.log.append(type(error).__name__)
            else:
                self.log.append("written")

    def _once(self, batch: int) -> Any:
        done: list[bool] = []

        def act() -> None:
            if not done:
                done.append(True)
                self.log.append(self.races.land(batch))

        return act

    def roll_back(self, batch: int) -> str:
        """A stranger rolls main back under a zombie, whose base is main's head again."""
        head = self.races.metadata().currentSnapshot().snapshotId()

        def foreign() -> None:
            for each in (batch, batch + 1):
                self.races.land(each)
            self.highest = self.races.position().seq
            self.races.call(f"rollback_to_snapshot('{self.races.table}', {head})")

        with failpoints.on("before-publish", self._first(foreign)):
            outcome = self.races.land(batch)
        self.log.append(outcome)
        if wrong := self.fallen():
            return wrong
        if outcome in ENDED or self.races.land(batch) != "rolled-back":
            return f"a stale batch was {outcome}"
        return self.judge(range(ROWS * batch))

    @staticmethod
    def _first(act: Any) -> Any:
        done: list[bool] = []

        def hook() -> None:
            if not done:
                done.append(True)
                act()

        return hook


def main() -> int:
    """Run what is missing; 1 when a schedule was wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=300)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--unfenced", action="store_true")
    options.add_argument("--server", choices=rest_servers.KINDS, default=rest_servers.SEAWEEDFS)
    given = options.parse_args()
    if given.unfenced:
        fence.move_tag = lambda transaction, _: transaction.currentMetadata().currentSnapshot()
        fence.empty_snapshot = property_only
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = [json.loads(line) for line in lines]
    done, end = {row["seed"] for row in known}, time.monotonic() + given.seconds
    with (
        tempfile.TemporaryDirectory(prefix="lakeward-rest-") as name,
        rest_servers.lossy(folder := Path(name), given.server) as (lake, proxy),
        started(folder, lake) as spark,
        given.results.open("a") as file,
    ):
        races = Races(spark, lake, proxy, 0)
        for seed in range(given.first, given.first + given.seeds):
            if seed in done or time.monotonic() > end:
                continue
            races.create(f"s{seed}")
            schedule, begun = Schedule(races, seed), time.monotonic()
            wrong = schedule.run()
            row = {"seed": seed, "ok": not wrong, "wrong": wrong, "steps": schedule.log,
                   "s": round(time.monotonic() - begun, 2)}  # fmt: skip
            known.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    wrong = [f"{row['seed']}: {row['wrong']}" for row in known if not row["ok"]]
    print(f"{len(known)} schedules, {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
