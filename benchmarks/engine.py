"""What a whole stream costs against the same stream written by hand: Kafka, the declared JSON, an Iceberg table.

    python benchmarks/engine.py [--mode append|upsert] [--decode same|plain] [--against hand|counted|planted]
        [--per-batch 20000] [--pairs 9]

Both read the same topic (flights) in the same batches with the same columns, into fresh tables, in one JVM, in turns
ABBA. By hand is what the guides show: `writeStream.toTable` for append, `foreachBatch` with a window and a MERGE for
upsert. `--decode same`: it decodes as the declared stream does, and drops a broken record. `--decode plain`: by
`from_json` alone, which makes nulls of what does not fit and tells nobody. Counted are rows per CPU second of the
process tree (Python and the JVM), from the end of the first batch to the end of the last. `--against counted`: the
other side is the declared stream too, with every batch counted by queries instead of in one pass (ADR 81).
`--against planted`: the other side is the declared stream with 15 % more work in each batch; a ratio of 1.15 shows that
this machine is quiet enough to see it. One JSON object: the median and the quartiles of the ratios of the pairs. Times
depend on the machine; ratios less so.
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
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench_environment import BenchEnvironment, cpu_seconds
from confluent_kafka import Producer

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.iceberg import table
from lakeward.connectors.kafka import reader
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE
from lakeward.demo import flights
from lakeward.spec.model.position_columns import position_columns
from lakeward.spec.model.sources import KafkaSource

DDL = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT, "
    "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour TIMESTAMP"
)
KEYS = ("carrier", "flight", "origin", "dest")
PLANTED = 0.15
MERGE_ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("merge", "update", "delete")}


class Bench:
    """Runs one side at a time, each into a table of its own."""

    def __init__(
        self, bench_env: BenchEnvironment, topic: str, records: int, per_batch: int, mode: str, decode: str
    ) -> None:
        self.bench_env, self.topic, self.records, self.per_batch, self.mode = bench_env, topic, records, per_batch, mode
        self.decode = _plain if decode == "plain" else _same
        self.spark = bench_env.spark()

    def lakeward(self, *, one_pass: bool = True, more_work: float = 0.0) -> float:
        """Rows per CPU second of the declared stream.

        Args:
            one_pass: without it every batch is counted by queries.
            more_work: CPU burnt after each batch, as a share of what the batch took.
        """
        name = f"ours{uuid4().hex[:8]}"
        done: list[Any] = Slowed(more_work) if more_work else []
        sink: dict[str, Any] = {"table": f"bench.{name}", "mode": self.mode}
        document = {
            "id": name,
            "owner": "bench",
            "source": {"kafka": {"topics": [self.topic], "max_offsets_per_trigger": self.per_batch}},
            "decode": {"json": DDL},
            "transform": {"sql": "SELECT * FROM source"},
            "sink": {"iceberg": sink | ({"keys": list(KEYS)} if self.mode == "upsert" else {})},
            "quarantine": {"table": f"bench.{name}_quarantine"},
            "trigger": {"every": "100ms"},
        }
        running = self.bench_env.start(self.spark, document, done)
        running.function.one_pass.possible &= one_pass
        try:
            return self._measure(lambda: sum(each.consumed for each in done), running.failure)
        finally:
            running.stop(60)

    def counted(self) -> float:
        """Rows per CPU second of the declared stream whose batches are all counted by queries."""
        return self.lakeward(one_pass=False)

    def planted(self) -> float:
        """Rows per CPU second of the declared stream with a planted slowdown."""
        return self.lakeward(more_work=PLANTED)

    def by_hand(self) -> float:
        """Rows per CPU second of the same, written by hand."""
        name = f"hand{uuid4().hex[:8]}"
        spec = KafkaSource(topics=(self.topic,), max_offsets_per_trigger=self.per_batch)
        raw = reader.read(self.spark, spec, Cluster("lakeward_kafka", self.bench_env.bootstrap), fresh=True)
        rows = self.decode(raw)
        properties = MERGE_ON_READ if self.mode == "upsert" else {}
        table.create(self.spark, f"bench.{name}", rows.schema, (), properties)
        target = f"lake.bench.{name}"
        self.spark.sql(f"ALTER TABLE {target} UNSET TBLPROPERTIES ('write.wap.enabled')")
        writer = rows.writeStream.option("checkpointLocation", f"{self.bench_env.folder}/checkpoints/{name}")
        writer = writer.trigger(processingTime="100 milliseconds")
        if self.mode == "upsert":
            query = writer.foreachBatch(lambda frame, _: _merge(frame, target)).start()
        else:
            query = writer.toTable(target)
        try:
            return self._measure(
                lambda: sum(each["numInputRows"] for each in query.recentProgress),
                lambda: query.exception(),
            )
        finally:
            query.stop()

    def _measure(self, consumed: Callable[[], int], failed: Callable[[], object]) -> float:
        def reach(count: int) -> int:
            while (now := consumed()) < count:
                if failure := failed():
                    raise RuntimeError(str(failure))
                time.sleep(0.02)  # a batch takes a second: its end is seen within a fiftieth of it
            return now

        first = reach(1)
        begun = cpu_seconds()
        last = reach(self.records)
        return (last - first) / (cpu_seconds() - begun)


class Slowed(list[Any]):
    """Batches that are done; each one that is added burns CPU first."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share, self._before = share, cpu_seconds()

    def append(self, batch: Any) -> None:
        """Burn a share of the CPU since the batch before, and add this one."""
        until = cpu_seconds() + self._share * (cpu_seconds() - self._before)
        while cpu_seconds() < until:
            sum(range(10_000))
        self._before = cpu_seconds()
        super().append(batch)


def _same(raw: Any) -> Any:
    """The declared stream's own decoding; what it found bad is dropped."""
    decoded = JsonDecoder(DDL, keep=position_columns("kafka")).apply(raw)
    return decoded.where(f"{REASON} IS NULL").drop(REASON, ERROR, RAW)


def _plain(raw: Any) -> Any:
    """As the guides show it."""
    from pyspark.sql import functions as F

    record = F.from_json(F.col(VALUE).cast("string"), DDL).alias("record")
    return raw.select(record, *position_columns("kafka")).select("record.*", *position_columns("kafka"))


def _merge(frame: Any, target: str) -> None:
    """As the guides show it: the newest row of a key, merged."""
    session = frame.sparkSession
    names = ", ".join(KEYS)
    frame.persist()
    frame.createOrReplaceTempView("batch")
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY _kafka_offset DESC) AS rank FROM batch"
    session.sql(f"SELECT * FROM ({ranked}) WHERE rank = 1").drop("rank").createOrReplaceTempView("newest")
    same = " AND ".join(f"t.{name} <=> s.{name}" for name in KEYS)
    merge = f"MERGE INTO {target} t USING newest s ON {same}"
    session.sql(f"{merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *").collect()
    frame.unpersist()


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "enable.idempotence": True})
    replay = flights.replay(flights.load(), seed=1, broken=0.0, late=0.0, laps=None)
    for _, record in zip(range(records), replay, strict=False):
        producer.produce(topic, record.value, record.key)
        producer.poll(0)
    producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("append", "upsert"), default="append")
    parser.add_argument("--decode", choices=("same", "plain"), default="same")
    parser.add_argument("--against", choices=("hand", "counted", "planted"), default="hand")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--per-batch", type=int, default=20_000, help="each batch costs both sides a fixed part")
    parser.add_argument("--pairs", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        topic = bench_env.topic("flights", partitions=2)
        fill(bench_env.bootstrap, topic, arguments.records)
        bench = Bench(bench_env, topic, arguments.records, arguments.per_batch, arguments.mode, arguments.decode)
        other = {"hand": bench.by_hand, "counted": bench.counted, "planted": bench.planted}[arguments.against]
        for side in (other, bench.lakeward, other, bench.lakeward):
            side()  # the JVM compiles what both use
        ratios = []
        for pair in range(arguments.pairs):
            if pair % 2:
                ours, hand = bench.lakeward(), other()
            else:
                hand, ours = other(), bench.lakeward()
            ratios.append(ours / hand)
            print(f"{ours:8.0f} against {hand:8.0f} rows per CPU-s: {ratios[-1]:.2f}", file=sys.stderr, flush=True)
    quartiles = statistics.quantiles(ratios, n=4)
    print(
        json.dumps(
            {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
                "mode": arguments.mode,
                "decode": arguments.decode,
                "against": arguments.against,
                "records": arguments.records,
                "per_batch": arguments.per_batch,
                "pairs": len(ratios),
                "rows_per_cpu_second_ratio": {
                    "lower_quartile": round(quartiles[0], 2),
                    "median": round(quartiles[1], 2),
                    "upper_quartile": round(quartiles[2], 2),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
