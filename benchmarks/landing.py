"""What landing exactly once costs: our sink against Spark's own `toTable`, on the same data, side by side.

    python benchmarks/landing.py [--batches 40] [--rows 5000] [--rounds 3] [--commits 0]

Both sinks land a deterministic source (`rate-micro-batch`) as fast as they can, in turns, in one JVM, into fresh tables
on a PostgreSQL catalog of their own. Reported as one JSON object: the median trigger of each and their ratio, the CPU
seconds of the whole process tree per batch and their ratio, and how long a publication takes. `--commits N` lands N
batches first, so that the figures are those of a table with a history. Times depend on the machine; ratios less so.
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

from bench_environment import BenchEnvironment, cpu_seconds

from lakeward.connectors.iceberg import table
from lakeward.connectors.iceberg.writer import IcebergWriter

WARM_UP = 5


def run(spark: Any, scratch: Path, exact: bool, batches: int, rows: int) -> dict[str, Any]:
    """One query of `batches` batches after the warm-up; figures per batch."""
    name, target = f"q{uuid4().hex[:8]}", f"bench.t{uuid4().hex[:8]}"
    source = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    ).selectExpr("value", "timestamp at", "repeat(CAST(value AS STRING), 5) text")
    table.create(spark, target, source.schema)
    writer = source.writeStream.queryName(name).option("checkpointLocation", str(scratch / "checkpoints" / name))
    landed: list[Any] = []
    if exact:
        sink = IcebergWriter(spark, name, target, name, stateful=False)
        query = writer.foreachBatch(lambda frame, batch: landed.append(sink.land(frame, batch))).start()
    else:
        query = writer.toTable(f"lake.{target}")

    def reach(batch: int) -> None:
        while (query.lastProgress or {}).get("batchId", -1) < batch:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.01)

    reach(WARM_UP)
    cpu, first = cpu_seconds(), query.lastProgress["batchId"]
    reach(WARM_UP + batches)
    cpu, last = cpu_seconds() - cpu, query.lastProgress["batchId"]
    triggers = [
        each["durationMs"]["triggerExecution"] for each in query.recentProgress if first < each["batchId"] <= last
    ]
    query.stop()
    return {
        "triggers": triggers,
        "cpu_s": cpu / (last - first),
        "stage": [each.stage_ms for each in landed[first + 1 :]],
        "publish": [each.publish_ms for each in landed[first + 1 :]],
    }


def measure(spark: Any, scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    runs: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for turn in range(arguments.rounds):
        for exact in (True, False) if turn % 2 else (False, True):
            found = run(spark, scratch, exact, arguments.commits + arguments.batches, arguments.rows)
            for key in ("triggers", "stage", "publish"):
                found[key] = found[key][-arguments.batches :]
            runs[exact].append(found)
            took = f"{statistics.median(found['triggers']):6.0f} ms {found['cpu_s']:6.3f} CPU-s"
            print("exact " if exact else "native", took, file=sys.stderr)

    def all_of(exact: bool, key: str) -> list[float]:
        return [value for each in runs[exact] for value in each[key]]

    medians = {exact: statistics.median(all_of(exact, "triggers")) for exact in runs}
    cpu = {exact: statistics.median(each["cpu_s"] for each in runs[exact]) for exact in runs}
    publish = sorted(all_of(True, "publish"))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "batches": arguments.batches * arguments.rounds,
        "rows_per_batch": arguments.rows,
        "commits_before": arguments.commits,
        "trigger_ms": {"exact": round(medians[True]), "native": round(medians[False])},
        "trigger_ratio": round(medians[True] / medians[False], 2),
        "cpu_s_per_batch": {"exact": round(cpu[True], 3), "native": round(cpu[False], 3)},
        "cpu_ratio": round(cpu[True] / cpu[False], 2),
        "stage_ms": {"median": round(statistics.median(all_of(True, "stage")))},
        "publish_ms": {"median": round(statistics.median(publish)), "p95": round(publish[int(len(publish) * 0.95)])},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commits", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        print(json.dumps(measure(bench_env.spark(), bench_env.folder, arguments)))


if __name__ == "__main__":
    main()
