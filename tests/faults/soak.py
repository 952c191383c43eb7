"""The soak: three streams and their maintenance for an hour, and whether the driver's memory grows.

One driver lands an append, an upsert by key and windows with state (RocksDB) from a steady topic, every two seconds;
beside it every table is observed, compacted and expired on a warm Connect server, as `tables_maintain` does. Once a
minute the driver's JVM collects its garbage; its heap, its metaspace and what Python and the JVM have for themselves
(USS) are noted. The first minutes are not counted: classes are loaded and code is compiled then.

    python tests/faults/soak.py [--minutes 60] [--rate 200] [--warm 10]

One JSON object goes to the results file: the samples, and of each figure the slope in MB an hour with the bounds of its
95 % confidence (Theil and Sen). Exit code 0 only if no slope is above zero for sure, and every record landed once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from campaign import ROOT
from confluent_kafka import Producer
from scipy.stats import theilslopes
from world import DriverProcess, World, on_stack

from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.spec.model.driver_conf import conf
from lakeward.tables import run

RESULTS = ROOT / "docs" / "explanation" / "soak.json"
PARTS = ("postgres", "kafka", "connect")
KEYS = 1_000
FIGURES = ("heap_mb", "metaspace_mb", "jvm_uss_mb", "python_uss_mb")
DDL = "n BIGINT, k INT, at TIMESTAMP"
POLICY = """
unsafe:
  - match: soak.*
    why: an hour has to show what a week does
    compact: {min_fragments: 20, fragment_ratio: 0.5, cooldown: 2m}
    expire: {older_than: 5m, min_snapshots: 5, every: 3m}
"""
SINKS: dict[str, dict[str, Any]] = {
    "soak_append": {"sink": {"iceberg": {"table": "soak.append", "mode": "append"}}},
    "soak_upsert": {"sink": {"iceberg": {"table": "soak.upsert", "mode": "upsert", "keys": ["k"], "order_by": "n"}}},
    "soak_windows": {
        "transform": {"sql": "SELECT window.start AS minute, k % 50 AS k, count(*) AS records, max(n) AS newest "
                             "FROM source GROUP BY window(at, '1 minute'), k % 50"},
        "sink": {"iceberg": {"table": "soak.windows", "mode": "append"}},
        "lineage": "none",
    },
}  # fmt: skip


def document(stream: str, topic: str) -> dict[str, Any]:
    """The spec of one of the streams."""
    source: dict[str, Any] = {
        "kafka": {"topics": [topic], "starting_offsets": "earliest", "max_offsets_per_trigger": 20_000},
        "decode": {"json": DDL},
    }
    if stream == "soak_windows":
        source["watermark"] = {"column": "at", "delay": "1m"}
    return {
        "id": stream,
        "sources": {"source": source},
        "transform": {"sql": "SELECT * FROM source"},
        "quarantine": {"table": "soak.quarantine"},
        "trigger": {"every": "2s"},
        **SINKS[stream],
    }


class Sending(threading.Thread):
    """Records at a steady rate until `over` is set."""

    def __init__(self, bootstrap: str, topic: str, rate: float) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._topic, self._rate = topic, rate
        self.over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        begun = time.monotonic()
        while not self.over.is_set():
            while self.sent < (time.monotonic() - begun) * self._rate:
                record = {"n": self.sent, "k": self.sent * 7919 % KEYS, "at": datetime.now(UTC).isoformat()}
                self._producer.produce(self._topic, json.dumps(record))
                self.sent += 1
            self._producer.poll(0.02)
        assert self._producer.flush(60) == 0


class Maintaining(threading.Thread):
    """Observes every table and does what is due, every few seconds, as the Dags do."""

    def __init__(self, runtime: Runtime, project: Project, every_s: float) -> None:
        super().__init__(daemon=True)
        self._runtime, self._project, self._every_s = runtime, project, every_s
        self.over = threading.Event()
        self.done: dict[str, int] = {}

    def run(self) -> None:
        while not self.over.wait(self._every_s):
            for table in run.observe(self._runtime, self._project)["due"]:
                try:
                    actions = run.maintain(self._runtime, self._project, table)["actions"]
                except LakewardError as error:
                    self._count(f"refused: {error.what}")
                    continue
                for each in actions:
                    self._count(f"{each['action']} {each['result']}")

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1


def sample(driver: DriverProcess) -> dict[str, float]:
    """MB, after a collection."""
    jvm = driver.jvm()
    _jcmd(jvm.pid, "GC.run")
    said = _jcmd(jvm.pid, "GC.heap_info")
    heap = sum(int(used) for used in re.findall(r"(?:generation|heap) .*used (\d+)K", said))
    metaspace = re.search(r"Metaspace +used (\d+)K", said)
    assert heap and metaspace is not None, said
    own = [psutil.Process(pid).memory_full_info().uss / 1e6 for pid in (jvm.pid, driver.pid)]
    values = (heap / 1e3, int(metaspace[1]) / 1e3, *own)
    return {name: round(value, 1) for name, value in zip(FIGURES, values, strict=True)}


def _jcmd(pid: int, command: str) -> str:
    return subprocess.run(["jcmd", str(pid), command], capture_output=True, text=True, check=True, timeout=60).stdout


def slopes(samples: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """MB an hour of each figure, with the bounds of its 95 % confidence."""
    hours = [each["minute"] / 60 for each in samples]
    found = {}
    for name in FIGURES:
        slope, _, low, high = theilslopes([each[name] for each in samples], hours, 0.95)
        found[name] = {"mb_an_hour": round(slope, 2), "low": round(low, 2), "high": round(high, 2)}
    return found


def soak(world: World, runtime: Runtime, options: argparse.Namespace) -> dict[str, Any]:
    """Run it; the result."""
    project = Project(world.folder / "project")
    project.tables_file.parent.mkdir(parents=True)
    project.tables_file.write_text(POLICY)
    topic = world.kafka.create_topic(f"soak{int(time.time())}", 2)
    for stream in SINKS:
        world.deploy(document(stream, topic))
    sending = Sending(world.kafka.bootstrap, topic, options.rate)
    maintaining = Maintaining(runtime, project, 30)
    driver = world.launch(conf=conf([]))
    sending.start()
    maintaining.start()
    samples: list[dict[str, float]] = []
    begun = time.monotonic()
    while (minute := (time.monotonic() - begun) / 60) < options.minutes:
        time.sleep(60)
        samples.append({"minute": round(minute + 1, 2), **sample(driver)})
        print(samples[-1], maintaining.done, f"sent {sending.sent}", file=sys.stderr, flush=True)
    for thread in (sending, maintaining):
        thread.over.set()
        thread.join()
    world.wait_landed("soak.append", "soak_append", sending.sent)
    assert driver.terminate() == 0, driver.said()
    numbers = sorted(row["n"] for row in world.rows("soak.append"))
    counted = [each for each in samples if each["minute"] > options.warm]
    position = world.position("soak.append", "soak_append")
    assert position is not None
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "minutes": options.minutes,
        "warm_minutes": options.warm,
        "rate": options.rate,
        "batches": position["seq"],
        "records": sending.sent,
        "missing": sending.sent - len(set(numbers)),
        "duplicates": len(numbers) - len(set(numbers)),
        "maintenance": maintaining.done,
        "slopes": slopes(counted),
        "samples": samples,
    }


def _lines(found: dict[str, Any]) -> str:
    """JSON with a sample a line."""
    rest = json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=1)
    samples = ",\n".join(f"  {json.dumps(each)}" for each in found["samples"])
    return rest[:-2] + f',\n "samples": [\n{samples}\n ]\n}}\n'


def main() -> int:
    """Exit code 0 only if every claim held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--warm", type=float, default=10, help="minutes that are not counted")
    parser.add_argument("--rate", type=float, default=200, help="records a second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--home", type=Path, default=ROOT / ".lakeward" / "soak")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with it
    home = Home(options.home / f"{int(time.time())}")
    with on_stack(home, PARTS) as make:
        world = make(home.root / "world")
        try:
            found = soak(world, Runtime.load(home.runtime_file), options)
        finally:
            world.end()
    options.results.write_text(_lines(found))
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=1))
    growing = [name for name, slope in found["slopes"].items() if slope["low"] > 0]
    return 1 if growing or found["missing"] or found["duplicates"] else 0


if __name__ == "__main__":
    sys.exit(main())
