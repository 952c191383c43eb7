"""A round: one driver hosts every (sink, mode), each stopped at a step of its own, and one SIGKILL ends them all.

Then what stands on disk says where each one really was (the cell), maintenance may work on the tables, more records
come, and the next driver must land everything. That driver is already the one the next round kills: a process start
gives a trial for every stream.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from exactly_once_arming import CONF, PLAIN, Armed, Arms
from exactly_once_evidence import Found, Inquest, Stream
from exactly_once_oracle import Judged, Record, Row, judge, repeated
from exactly_once_records import PARTITIONS, put, send
from exactly_once_sinks import Sinks
from exactly_once_streams import CAP, FILES, Kind
from world import DriverProcess, World, wait_for

from lakeward.cli.streams.audit import audit
from lakeward.platform.errors import LakewardError
from lakeward.registry import streams
from lakeward.spec.model.stream import StreamSpec

SHRUNK = 3
"""Tables that are compacted and expired in one round: each costs CPU-seconds."""
ARRIVAL_S, DRAIN_S = 240.0, 600.0


class Rounds:
    """Rounds on one topic and one set of streams.

    Args:
        world: where.
        kinds: the streams.
        maintenance: shrinks a table between kill and restart; None: never.
        name: in the names of streams and topics.
        plant: the guard that is taken out of the driver, see `planted/sitecustomize.py`.
    """

    def __init__(
        self, world: World, kinds: Sequence[Kind], maintenance: Any = None, name: str = "eo", plant: str | None = None
    ) -> None:
        self.world, self._maintenance, self._plant = world, maintenance, plant
        self.folder = world.folder / f"sinks-{name}"
        (self.folder / FILES).mkdir(parents=True, exist_ok=True)
        self.topic = world.kafka.create_topic(f"{world.name}-{name}", partitions=PARTITIONS)
        self.arms = Arms(world.folder / f"failpoints-{name}", world.runtime.jars)
        self.sinks = Sinks(world, self.folder)
        self.inquest = Inquest(world, self.sinks, self.topic)
        self.records: list[Record] = []
        self.driver: DriverProcess | None = None
        self.armed = True
        self.cpu_s = 0.0
        self.streams = [self._deploy(kind, f"{world.name}_{name}_{kind.name.replace('-', '_')}") for kind in kinds]

    def _deploy(self, kind: Kind, stream: str) -> Stream:
        table = f"{self.world.name}.{stream}"
        if kind.sink == "kafka":
            self.world.kafka.create_topic(stream)
        document = kind.spec(stream, self.topic, table, self.folder)
        self.world.deploy(document)
        return Stream(kind, stream, table, document)

    def remove(self) -> None:
        """Let the driver host none of these any more."""
        self.stop()
        with self.world.connect() as connection:
            for each in self.streams:
                streams.remove(connection, each.name)

    def run(self, seed: int, steps: Mapping[str, str]) -> list[dict[str, Any]]:
        """One round; a line for each stream.

        Args:
            steps: kind -> where it is to be killed.
        """
        dice = random.Random(f"{seed}/exactly-once")
        began, cpu = time.monotonic(), self.cpu_s
        if self.driver is not None:
            self._again()  # what runs now and then is asked for
        first = dice.randint(CAP // 2, CAP * 4 // 3)
        armed = self.arm(steps, 1 if first > CAP else 0)
        self.produce(dice, first)
        if self.driver is None:
            self.launch()
        reached = self.arrived(armed)
        self.kill()
        found = {
            each.name: self.inquest.post_mortem(each, armed[each.name], each.name in reached) for each in self.streams
        }
        disturbed = self._disturb(dice)
        self.arms.disarm()
        self.produce(dice, dice.randint(CAP // 4, CAP // 2))
        self._again()
        self.launch()
        lines = [self._line(seed, each, found[each.name], steps, each.name in disturbed) for each in self.streams]
        took = {"wall_s": round(time.monotonic() - began, 1), "cpu_s": round(self.cpu_s + self._cpu() - cpu, 1)}
        return [line | {"round": took} for line in lines]

    def produce(self, dice: random.Random, count: int) -> None:
        """Send records."""
        sent = send(self.world.kafka.bootstrap, self.topic, dice, len(self.records), count)
        self.records += sent
        if any(each.kind.files for each in self.streams):
            put(self.folder / FILES, sent)

    def launch(self) -> None:
        """Start a driver; nobody waits for the leases of one that was killed."""
        if self.world.started:
            self.world.forget_leases()
        path = [str(Path(__file__).parents[1] / "support")]
        env = {**(self.arms.environment if self.armed else {}), "LAKEWARD_TEST_SINK": str(self.folder)}
        if self._plant is not None:
            path.append(str(Path(__file__).parent / "planted"))
            env["LAKEWARD_PLANT"] = self._plant
        env["PGPASSFILE"] = str(self.world.runtime.pgpass)
        env["PYTHONPATH"] = os.pathsep.join(path)
        self.driver = self.world.launch(env=env, conf=CONF if self.armed else PLAIN)

    def kill(self) -> None:
        """SIGKILL to the whole process group."""
        assert self.driver is not None
        self.cpu_s += self._cpu()
        jvm = self.driver.jvm()
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.process.wait(30)
        psutil.wait_procs([jvm], timeout=30)
        self.driver = None

    def stop(self) -> None:
        """End the driver, if one runs."""
        if self.driver is not None and self.driver.process.poll() is None:
            self.kill()

    def _cpu(self) -> float:
        if self.driver is None or self.driver.process.poll() is not None:
            return 0.0
        whole = psutil.Process(self.driver.pid)
        times = [each.cpu_times() for each in [whole, *whole.children(recursive=True)]]
        return sum(each.user + each.system for each in times)

    def _again(self) -> None:
        for each in self.streams:
            if "available_now" in each.document["trigger"]:
                self.world.desire(each.name, "running")

    def arm(self, steps: Mapping[str, str], later: int) -> dict[str, Armed]:
        """Arm the streams that have a step, for their next batch or one `later`."""
        wanted = {}
        for each in self.streams:
            if each.kind.name not in steps:
                continue
            _, commits = self.inquest.batches(each)
            batch = max(commits, default=-1) + 1
            # Files do not say whose batch they are: the next one's it is.
            batch = 0 if steps[each.kind.name] in ("mid-write", "after-files") else batch + later
            wanted[each.name] = (each.kind, steps[each.kind.name], batch, self.sinks.place(each.kind, each.table))
        return self.arms.arm(wanted)

    def arrived(self, armed: Mapping[str, Armed]) -> set[str]:
        """The streams that came to their step, once all did or the time is over."""
        end = time.monotonic() + ARRIVAL_S
        while time.monotonic() < end:
            found = {name for name, each in armed.items() if self._there(each)}
            if len(found) == len(armed):
                break
            assert self.driver is not None
            assert self.driver.process.poll() is None, self.driver.said()
            time.sleep(0.2)
        return found

    def _there(self, armed: Armed) -> bool:
        if not armed.marker.exists():
            return False
        if armed.step != "after-record":
            return True
        seen = self.world.observation(armed.stream)
        own = next(each for each in self.streams if each.name == armed.stream)
        offsets, _ = self.inquest.batches(own)
        return seen is not None and seen.batch_id == max(offsets)

    def _disturb(self, dice: random.Random) -> set[str]:
        """Compaction and the tightest expiry of a few tables, while nobody runs."""
        if self._maintenance is None:
            return set()
        lake = [each for each in self.streams if each.kind.lake]
        chosen = dice.sample(lake, min(SHRUNK, len(lake)))
        return {each.name for each in chosen if self._maintenance.shrink(each.kind, each.table)}

    def drained(self, stream: Stream) -> bool:
        """Whether everything sent was landed."""
        if stream.kind.files:
            return len(self.rows(stream)) >= len(self.records)
        return self.inquest.drained(stream, self.records)

    def land(self) -> None:
        """Wait until everything sent is landed, or the stream says that it cannot."""
        for each in self.streams:
            wait_for(f"the end of {each.name}", partial(self._ended, each))

    def _ended(self, stream: Stream) -> bool:
        return self.drained(stream) or self.blocked(stream) is not None

    def rows(self, stream: Stream) -> list[Row]:
        """All rows of its sink."""
        return self.sinks.rows(stream.kind, stream.name, stream.table)

    def _line(
        self, seed: int, stream: Stream, found: Found, steps: Mapping[str, str], disturbed: bool
    ) -> dict[str, Any]:
        problems: list[str] = []
        try:
            wait_for("the end", partial(self._ended, stream), DRAIN_S)
        except AssertionError:
            problems.append(f"not drained within {DRAIN_S:.0f} s")
        if blocked := self.blocked(stream):
            problems.append(f"blocked: {blocked}")
        rows = self.rows(stream)
        judged = judge(stream.kind, self.records, rows)
        doubles = 0
        if not stream.kind.exact and stream.kind.proof == "positions":
            twice = repeated(rows)
            doubles = len(twice)
            beyond = sorted(set(twice) - stream.under_way)
            judged = Judged(judged.lost, tuple(map(str, beyond[:3])), judged.wrong)
        problems += judged.problems
        problems += self._audited(stream)
        return {
            "seed": f"{seed}/{stream.kind.name}", "ok": not problems, "stream": stream.kind.name,
            "wished": steps[stream.kind.name], "cell": found.cell, "facts": dict(found.facts),
            "between": "compaction and expiry" if disturbed else "nothing",
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "records": len(self.records), "rows": len(rows),
            **({} if stream.kind.exact else {"repeated": doubles}), "problems": problems,
        }  # fmt: skip

    def blocked(self, stream: Stream) -> str | None:
        """Why it waits for a person; None if it does not."""
        found = self.world.stream(stream.name).blocked
        return None if not found else f"{found.get('what')}: {found.get('why') or found.get('error')}"

    def _audited(self, stream: Stream) -> list[str]:
        """What `streams audit` says of the same rows."""
        if stream.kind.sink not in ("iceberg", "delta", "postgres"):
            return []
        try:
            found = audit(self.world.runtime, StreamSpec.model_validate({"owner": "tests", **stream.document}))
        except LakewardError as error:
            return [f"the audit failed: {error}"]
        missing, doubled = found["missing"] or 0, found["duplicates"] or 0
        return [f"the audit counts {missing} missing, {doubled} duplicates"] if missing or doubled else []
