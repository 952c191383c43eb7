"""One dashboard query kept up to date: by a stream of windows, or by reading the raw table again.

    python benchmarks/incremental.py [--laps 1,10,30] [--batches 12] [--per-batch 2000]

The dashboard shows departures, mean delay and share of late flights by hour and carrier. *Incremental*: a declared
stream keeps these windows (upsert into an Iceberg table, state in RocksDB); counted are the CPU seconds of the process
tree (Python and the JVM) for one more batch, and for reading the result. *Rescan*: the same query over the raw flights,
a table of full files, so many times the year as `--laps` says. Each is run in turns with the other; medians. One JSON
object: the figures, and for each size how many times a refresh by rescan costs one by increment.
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
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_environment import BenchEnvironment, cpu_seconds
from confluent_kafka import Producer

from lakeward.demo import flights

DDL = "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP"
SQL = """
SELECT {hour} AS hour, carrier, count(*) AS departures, avg(dep_delay) AS mean_delay,
       avg(CASE WHEN dep_delay > 15 THEN 1.0D ELSE 0.0D END) AS late_share
FROM {table} GROUP BY {group}, carrier
"""


class Dashboard:
    """The stream, the raw tables and the query over either."""

    def __init__(self, bench_env: BenchEnvironment, per_batch: int) -> None:
        self._bench_env, self._per_batch = bench_env, per_batch
        self._topic = bench_env.topic("flights", 2)
        self._spark = bench_env.spark()
        self._records = flights.replay(flights.load(), seed=1, broken=0.0, late=0.0, laps=None)
        self._producer = Producer({"bootstrap.servers": bench_env.bootstrap, "linger.ms": 20})
        self._done: list[Any] = []
        document = {
            "id": "dashboard",
            "owner": "bench",
            "source": {"kafka": {"topics": [self._topic], "max_offsets_per_trigger": 1_000_000}},
            "decode": {"json": DDL},
            "watermark": {"column": "time_hour", "delay": "2h"},
            "transform": {"sql": SQL.format(hour="window.start", table="source", group="window(time_hour, '1 hour')")},
            "lineage": "none",
            "sink": {"iceberg": {"table": "bench.dashboard", "mode": "upsert", "keys": ["hour", "carrier"]}},
            "quarantine": {"table": "bench.dashboard_quarantine"},
            "trigger": {"every": "100ms"},
        }
        self._running = bench_env.start(self._spark, document, self._done)

    def batch(self) -> None:
        """So many records more, until they are in the table."""
        for record in islice(self._records, self._per_batch):
            self._producer.produce(self._topic, record.value, record.key)
            self._producer.poll(0)
        before = self._consumed()
        assert self._producer.flush(60) == 0
        while self._consumed() < before + self._per_batch:
            if failure := self._running.failure():
                raise RuntimeError(str(failure))
            time.sleep(0.02)

    def read(self) -> None:
        """The dashboard, from the windows."""
        self._spark.sql("SELECT * FROM lake.bench.dashboard").toArrow()

    def rescan(self, laps: int) -> None:
        """The dashboard, from the raw flights."""
        query = SQL.format(hour="date_trunc('hour', time_hour)", table=f"lake.bench.raw_{laps}", group="1")
        self._spark.sql(query).toArrow()

    def raw(self, laps: int) -> int:
        """Make the raw table of so many years of flights; its rows."""
        year = flights.load().select(["carrier", "dep_delay", "time_hour", "flight", "tailnum", "origin", "dest"])
        file = self._bench_env.folder / "year.parquet"
        pq.write_table(year.set_column(1, "dep_delay", year["dep_delay"].cast(pa.float64())), file)
        years = self._spark.read.parquet(str(file)).crossJoin(self._spark.range(laps).withColumnRenamed("id", "lap"))
        moved = years.selectExpr("* EXCEPT (lap, time_hour)", "time_hour + lap * INTERVAL 364 DAYS AS time_hour")
        moved.repartition(2).sortWithinPartitions("time_hour").writeTo(f"lake.bench.raw_{laps}").create()
        return int(self._spark.table(f"lake.bench.raw_{laps}").count())

    def stop(self) -> None:
        """End the stream."""
        self._running.stop(60)

    def _consumed(self) -> int:
        return sum(each.consumed for each in list(self._done))


def cost(act: Callable[[], None]) -> float:
    """CPU seconds of it."""
    before = cpu_seconds()
    act()
    return cpu_seconds() - before


def measure(dashboard: Dashboard, laps: list[int], batches: int) -> dict[str, Any]:
    """Each in turns with the others."""
    rows = {each: dashboard.raw(each) for each in laps}
    for _ in range(3):  # the JVM compiles what all of them use
        dashboard.batch()
        dashboard.read()
        for each in laps:
            dashboard.rescan(each)
    spent: dict[str, list[float]] = {"batch": [], "read": [], **{f"rescan {each}": [] for each in laps}}
    for number in range(batches):
        spent["batch"].append(cost(dashboard.batch))
        spent["read"].append(cost(dashboard.read))
        for each in laps:
            spent[f"rescan {each}"].append(cost(lambda each=each: dashboard.rescan(each)))
        print(number, {name: round(values[-1], 2) for name, values in spent.items()}, file=sys.stderr, flush=True)
    middle = {name: statistics.median(values) for name, values in spent.items()}
    increment = middle["batch"] + middle["read"]
    return {
        "cpu_seconds": {
            name: {"median": round(middle[name], 2), "least": round(min(values), 2), "most": round(max(values), 2)}
            for name, values in spent.items()
        },
        "rescan_over_increment": [
            {"rows": rows[each], "ratio": round(middle[f"rescan {each}"] / increment, 2)} for each in laps
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laps", default="1,10,30", help="sizes of the raw table, in years of 336,776 flights")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--per-batch", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        dashboard = Dashboard(bench_env, arguments.per_batch)
        try:
            found = measure(dashboard, [int(each) for each in arguments.laps.split(",")], arguments.batches)
        finally:
            dashboard.stop()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(json.dumps({"machine": machine, "per_batch": arguments.per_batch, **found}))


if __name__ == "__main__":
    main()
