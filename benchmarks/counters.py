"""What counting rows while they land costs: the same rows and the same stream with and without, in turns.

    python benchmarks/counters.py [--pairs 7] [--rows 1000000] [--per-batch 20000] [--batches 10]

The row by row checks of the suite of twenty that `quality.py` measures with (14 of them), none of which fails. First a
write alone: rows of a Parquet file into a fresh Iceberg table. Then a declared stream of such rows from Kafka. CPU is
that of the process tree (Python and the JVM), medians with the quartiles of the pairs; jobs are Spark's own count. One
JSON object. Times depend on the machine; differences and ratios less so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from ground import Ground, cpu_seconds
from quality_data import COLUMNS, NAMES, ROWS, TWENTY

from lakeward.connectors.iceberg import table
from lakeward.engine.sinks.counting import Counting
from lakeward.quality.advisory.counted import counters
from lakeward.spec.model.suite import Suite

SUITE = Suite.model_validate({"table": "bench.t", "owner": "bench", "expectations": TWENTY})


def counting(on: bool) -> Counting:
    made, said = Counting(lambda text: sys.exit(text)), counters(SUITE)
    made.use((said.digest, said.text) if on else None)
    return made


def write(ground: Ground, spark: Any, rows: Any, on: bool) -> dict[str, float]:
    """One append of all rows."""
    name = f"bench.w{uuid4().hex[:8]}"
    table.create(spark, name, rows.schema)
    spark.sql(f"ALTER TABLE lake.{name} UNSET TBLPROPERTIES ('write.wap.enabled')")
    watched, tracker = counting(on).watch(rows), spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup(name, name)
    begun = cpu_seconds()
    (watched.rows if watched else rows).writeTo(f"lake.{name}").append()
    spent = cpu_seconds() - begun
    jobs = len(tracker.getJobIdsForGroup(name))
    assert watched is None or watched.counts(rows.count()) == {}, "all rows were counted, and none fails"
    spark.sql(f"DROP TABLE lake.{name} PURGE")
    return {"cpu_s": spent, "jobs": jobs}


def stream(ground: Ground, spark: Any, topic: str, arguments: argparse.Namespace, on: bool) -> dict[str, float]:
    """A declared stream over the topic, per batch; its first batch is not counted in."""
    name, done = f"s{uuid4().hex[:8]}", []
    document = {
        "id": name,
        "owner": "bench",
        "source": {"kafka": {"topics": [topic], "max_offsets_per_trigger": arguments.per_batch}},
        "decode": {"json": COLUMNS},
        "transform": {"sql": "SELECT * FROM source"},
        "sink": {"iceberg": {"table": f"bench.{name}"}},
        "quarantine": {"table": f"bench.{name}_quarantine"},
        "trigger": {"every": "100ms"},
    }
    tracker = spark.sparkContext.statusTracker()
    running = ground.start(spark, document, done, counting=counting(on))

    def reach(batches: int) -> tuple[float, int]:
        while len(done) < batches:
            if failure := running.failure():
                raise RuntimeError(str(failure))
            time.sleep(0.02)
        return cpu_seconds(), len(tracker.getJobIdsForGroup(str(running.query.runId)))

    try:
        first = reach(1)
        last = reach(arguments.batches + 1)
    finally:
        running.stop(60)
    assert {each.outcome.advisory is not None for each in done} == {on}
    return {"cpu_s": (last[0] - first[0]) / arguments.batches, "jobs": (last[1] - first[1]) / arguments.batches}


def compared(once: Any, pairs: int, what: str) -> dict[str, Any]:
    """Both sides in turns ABBA, after two of each that the JVM compiles by."""
    for on in (False, True, False, True):
        once(on)
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for pair in range(pairs):
        for on in (False, True) if pair % 2 else (True, False):
            found[on].append(once(on))
        print(what, found[False][-1], "counted", found[True][-1], file=sys.stderr, flush=True)
    more = [one["cpu_s"] - other["cpu_s"] for one, other in zip(found[True], found[False], strict=True)]
    quartiles = statistics.quantiles(more, n=4)
    return {
        "cpu_s": {
            word: round(statistics.median(each["cpu_s"] for each in found[on]), 3) for on, word in _WORDS.items()
        },
        "more_cpu_s": [round(each, 3) for each in quartiles],
        "jobs": {word: round(statistics.mean(each["jobs"] for each in found[on]), 2) for on, word in _WORDS.items()},
    }


_WORDS = {False: "without", True: "counted"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--per-batch", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, Ground(Path(folder)) as ground:
        spark = ground.spark()
        made = spark.sql(f"{ROWS} FROM range(0, {arguments.rows}, 1, 2)").toDF(*NAMES)
        made.write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        topic = ground.topic("rows", partitions=2)
        producer = Producer({"bootstrap.servers": ground.bootstrap, "linger.ms": 50})
        for row in made.limit(arguments.per_batch * (arguments.batches + 1)).toJSON().toLocalIterator():
            producer.produce(topic, row)
            producer.poll(0)
        producer.flush()
        found = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            "checks": len(counters(SUITE).counted),
            "pairs": arguments.pairs,
            "write": compared(lambda on: write(ground, spark, rows, on), arguments.pairs, "write"),
            "stream": compared(lambda on: stream(ground, spark, topic, arguments, on), arguments.pairs, "stream"),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
