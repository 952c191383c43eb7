"""A backlog, then a burst: whether memory stays flat and the lag only falls.

    python benchmarks/catch_up.py [--backlog 2000000] [--per-batch 20000] [--rate 500] [--seconds 20]

One declared stream lands a topic with four partitions (one of them gets most of the records) in an Iceberg table,
`every: 1s`, batches capped. First a backlog that is there when it starts; then records at a steady rate, ten times the
rate, and the rate again, for some seconds each. After each tenth batch of the backlog the JVM collects its garbage; its
heap, the PSS of Python and the JVM, and the lag of each partition are noted. One JSON object: the samples; `flat`: the
median heap of the last third against that of the second; `monotone`: whether the lag of the backlog never rose; of the
burst, the largest lag and how long it took to be gone. Rows a second depend on the machine; the rest should not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from bench_environment import BenchEnvironment
from confluent_kafka import Producer

from lakeward.connectors.kafka import position

PARTITIONS = 4
DDL = "n BIGINT, s STRING"


def fill(bootstrap: str, topic: str, count: int) -> None:
    """Every other record into partition 0: a skewed key."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(count):
        producer.produce(topic, f'{{"n":{number},"s":"{number:040d}"}}', partition=_partition(number))
        producer.poll(0)
    assert producer.flush(120) == 0


def steadily(producer: Producer, topic: str, rate: float, seconds: float, sent: list[int]) -> None:
    """Records at a rate; each is counted in `sent`."""
    begun, first = time.monotonic(), sent[0]
    while (at := time.monotonic()) < begun + seconds:
        while sent[0] - first < (at - begun) * rate:
            producer.produce(topic, f'{{"n":{sent[0]},"s":"x"}}', partition=_partition(sent[0]))
            sent[0] += 1
        producer.poll(0.01)
    assert producer.flush(60) == 0


def _partition(number: int) -> int:
    return 0 if number % 2 else (number // 2) % PARTITIONS


def memory(spark: Any) -> dict[str, float]:
    """MB: the heap in use after a collection, and the PSS of Python and the JVM."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.java.lang.System.gc()
    me = psutil.Process()
    jvm = next(each for each in me.children(recursive=True) if each.name() == "java" and "pyspark" in _line(each))
    pss = [each.memory_full_info().pss for each in (me, jvm)]
    used = runtime.totalMemory() - runtime.freeMemory()
    return {"heap_mb": round(used / 1e6), "pss_mb": round(sum(pss) / 1e6)}


def _line(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def ends(done: Any) -> dict[int, int]:
    """Partition -> the offset the newest batch has landed up to."""
    return next(iter(position.parse(done.outcome.batch.end["source"]).values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backlog", type=int, default=2_000_000)
    parser.add_argument("--per-batch", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        topic = bench_env.topic("backlog", PARTITIONS)
        fill(bench_env.bootstrap, topic, arguments.backlog)
        spark = bench_env.spark()
        done: list[Any] = []
        document = {
            "id": "catch_up",
            "owner": "bench",
            "source": {"kafka": {"topics": [topic], "max_offsets_per_trigger": arguments.per_batch}},
            "decode": {"json": DDL},
            "transform": {"sql": "SELECT * FROM source"},
            "sink": {"iceberg": {"table": "bench.catch_up"}},
            "quarantine": {"table": "bench.catch_up_quarantine"},
            "trigger": {"every": "1s"},
        }
        running = bench_env.start(spark, document, done)
        print(json.dumps(measure(bench_env, spark, running, done, topic, arguments)))
        running.stop(60)


def measure(
    bench_env: BenchEnvironment, spark: Any, running: Any, done: list[Any], topic: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    backlog, begun = arguments.backlog, time.monotonic()
    whole = {p: sum(_partition(n) == p for n in range(backlog)) for p in range(PARTITIONS)}
    samples: list[dict[str, Any]] = []
    lags: list[int] = []

    def landed() -> int:
        if failure := running.failure():
            raise RuntimeError(str(failure))
        return sum(each.consumed for each in list(done))

    while (now := landed()) < backlog:
        lags.append(backlog - now)
        if len(done) // 10 > len(samples):
            behind = {f"{p}": count - ends(done[-1]).get(p, 0) for p, count in whole.items()}
            sample = {"batches": len(done), "lag": backlog - now, "partitions": behind, **memory(spark)}
            samples.append(sample)
            print(sample, file=sys.stderr, flush=True)
        time.sleep(0.05)
    took = time.monotonic() - begun
    burst = _burst(bench_env, topic, landed, arguments)
    third = max(1, len(samples) // 3)
    middle, last = samples[third : 2 * third] or samples, samples[-third:]
    heaps = [statistics.median(each["heap_mb"] for each in part) for part in (middle, last)]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "backlog": backlog,
        "batches": len(done),
        "seconds": round(took),
        "rows_per_second": round(backlog / took),
        "monotone": all(later <= sooner for sooner, later in pairwise(lags)),
        "flat": round(heaps[1] / heaps[0], 2),
        "pss_mb": {"first": samples[0]["pss_mb"], "most": max(each["pss_mb"] for each in samples)},
        "largest_batch": max(each.consumed for each in done),
        "burst": burst,
        "samples": samples,
    }


def _burst(bench_env: BenchEnvironment, topic: str, landed: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """The rate, ten times the rate, the rate again: the largest lag of each, and when the burst's was gone."""
    before, sent, phase, peaks = landed(), [0], [0], [0, 0, 0]
    over = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bench_env.bootstrap, "linger.ms": 5})
        for number, factor in enumerate((1, 10, 1)):
            phase[0] = number
            steadily(producer, topic, arguments.rate * factor, arguments.seconds, sent)
        over.set()

    threading.Thread(target=send, daemon=True).start()
    ended, retired_after_s = 0.0, None
    while not over.is_set() or landed() < before + sent[0]:
        lag = before + sent[0] - landed()
        peaks[phase[0]] = max(peaks[phase[0]], lag)
        if phase[0] == 2:
            ended = ended or time.monotonic()
            if retired_after_s is None and lag <= peaks[0]:
                retired_after_s = round(time.monotonic() - ended, 1)
        time.sleep(0.1)
    return {"records": sent[0], "largest_lag": dict(zip(("before", "during", "after"), peaks, strict=True)),
            "gone_after_its_end_s": retired_after_s}  # fmt: skip


if __name__ == "__main__":
    main()
