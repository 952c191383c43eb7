"""How soon: from the moment a record was sent until a reader has what was made of it.

    python benchmarks/latency.py [--seconds 40] [--rate 200] [--only hop,alerts,table]

Three streams one after the other, in one JVM on two cores, on a broker and a catalog of their own, a record every few
milliseconds. `hop`: `real_time: 10s`, a topic with one partition; records sent while one checkpoint interval ends and
the next begins are told apart (in production that is once in five minutes). `alerts`: the same as batches, `every:
100ms`. Both: until a consumer of the second topic has the message. `table`: an Iceberg append, `every: 2s`: until the
batch that holds the record is committed, over all records; beside it what trigger and commit allow. Each record carries
the producer's time; all clocks are this machine's. The first quarter is left out: the JVM compiles. One JSON object,
with the load beside it: other work on the cores moves the p99 more than anything else.
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
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench_environment import BenchEnvironment
from confluent_kafka import Consumer, Producer, TopicPartition

DDL = "n BIGINT, sent DOUBLE"
TABLE_S = 2.0
REAL_TIME_S = 10
NEAR_S = 0.2
"""How long the tasks of the next interval may take to begin."""


def produce(bootstrap: str, topic: str, seconds: float, rate: float) -> list[float]:
    """Send records at a steady rate; when each was sent (seconds since 1970), by offset."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    begun, sent = time.time(), list[float]()
    while (now := time.time()) < begun + seconds:
        producer.produce(topic, json.dumps({"n": len(sent), "sent": now}), partition=0)
        sent.append(now)
        producer.poll(0)
        time.sleep(max(0.0, begun + len(sent) / rate - time.time()))
    assert producer.flush(60) == 0
    return sent


class Reader(threading.Thread):
    """Reads a topic and notes when each message came: `(sent, came)`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.came: list[tuple[float, float]] = []
        self.over = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": topic, "fetch.wait.max.ms": 5}
        self.consumer = Consumer(settings)
        self.consumer.assign([TopicPartition(topic, 0, 0)])

    def run(self) -> None:
        while not self.over.is_set():
            message = self.consumer.poll(0.2)
            if message is not None and message.error() is None:
                now, value = time.time(), message.value()
                assert value is not None
                self.came.append((float(json.loads(value)["sent"]), now))
        self.consumer.close()


def document(name: str, topic: str, trigger: dict[str, str], sink: dict[str, Any]) -> dict[str, Any]:
    cap = {} if "real_time" in trigger else {"max_offsets_per_trigger": 20_000}
    return {
        "id": name,
        "owner": "bench",
        "source": {"kafka": {"topics": [topic], **cap}},
        "decode": {"json": DDL},
        "transform": {"sql": "SELECT * FROM source WHERE n >= 0"},
        "sink": sink,
        "quarantine": {"table": f"bench.{name}_quarantine"},
        "trigger": trigger,
    }


def messages(
    bench_env: BenchEnvironment, spark: Any, trigger: dict[str, str], seconds: float, rate: float
) -> dict[str, Any]:
    """Kafka to Kafka: percentiles, and for a hop those near the end of an interval apart."""
    name = f"m{uuid4().hex[:8]}"
    topic, out = bench_env.topic(f"{name}-in", 1), bench_env.topic(f"{name}-out", 1)
    done, progress = list[Any](), list[dict[str, Any]]()
    running = bench_env.start(spark, document(name, topic, trigger, {"kafka": {"topic": out}}), done, progress)
    reader = Reader(bench_env.bootstrap, out)
    reader.start()
    sent = produce(bench_env.bootstrap, topic, seconds, rate)
    end = time.time() + 60
    while len({at for at, _ in reader.came}) < len(sent) and time.time() < end:
        if failure := running.failure():
            raise RuntimeError(str(failure))
        time.sleep(0.1)
    running.stop(60)
    reader.over.set()
    reader.join()
    assert len(reader.came) >= len(sent), "messages are missing"
    steady = sent[0] + seconds / 4
    came = [(at, (now - at) * 1000) for at, now in reader.came if at >= steady]
    if "real_time" not in trigger:
        return {"trigger": trigger, "ms": percentiles([took for _, took in came])}
    pauses = list(starmap(pause, pairwise(progress)))
    near = [took for at, took in came if any(begin <= at <= end for begin, end in pauses)]
    inside = [took for at, took in came if not any(begin <= at <= end for begin, end in pauses)]
    lengths = [end - begin - NEAR_S for begin, end in pauses]
    return {
        "trigger": trigger,
        "ms_inside": percentiles(inside),
        "ms_at_the_end_of_an_interval": percentiles(near),
        "pause_ms": round(statistics.median(lengths) * 1000),
        "intervals": len(pauses),
    }


def pause(before: dict[str, Any], after: dict[str, Any]) -> tuple[float, float]:
    """From when one interval reads no more until the next one does, and `NEAR_S` longer, as Spark reports it."""

    def until(each: dict[str, Any], *phases: str) -> float:
        begun = datetime.fromisoformat(each["timestamp"]).timestamp()
        return begun + sum(each["durationMs"].get(phase, 0) for phase in phases) / 1000

    planning = ("latestOffset", "getBatch", "queryPlanning")
    return until(before, *planning, "addBatch"), until(after, *planning) + NEAR_S


def table(bench_env: BenchEnvironment, spark: Any, seconds: float, rate: float) -> dict[str, Any]:
    """Kafka to an Iceberg table: how old a record is when its batch is committed."""
    name = f"t{uuid4().hex[:8]}"
    topic = bench_env.topic(f"{name}-in", 1)
    done: list[Any] = []
    sink = {"iceberg": {"table": f"bench.{name}"}}
    running = bench_env.start(spark, document(name, topic, {"every": f"{TABLE_S:.0f}s"}, sink), done)
    skew = time.time() - time.monotonic()
    sent = produce(bench_env.bootstrap, topic, seconds, rate)
    while sum(each.consumed for each in done) < len(sent):
        if failure := running.failure():
            raise RuntimeError(str(failure))
        time.sleep(0.1)
    running.stop(60)
    ages, took, at = list[float](), list[float](), 0
    for each in done:
        upto = at + each.consumed
        fresh = [moment for moment in sent[at:upto] if moment >= sent[0] + seconds / 4]
        ages += [each.ended + skew - moment for moment in fresh]
        took += [each.duration_s] if fresh else []
        at = upto
    commit = quantile(took, 95)
    return {
        "trigger_s": TABLE_S,
        "s": {f"p{p}": round(quantile(ages, p), 2) for p in (50, 99)},
        "batch_p95_s": round(commit, 2),
        "p99_over_allowed": round(quantile(ages, 99) / (1.5 * TABLE_S + commit), 2),
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{p}": round(quantile(values, p), 1) for p in (50, 95, 99)} | {"records": len(values)}


def quantile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40, help="of records, each stream (default 40)")
    parser.add_argument("--rate", type=float, default=200, help="records a second (default 200)")
    parser.add_argument("--only", default="hop,alerts,table")
    arguments = parser.parse_args()
    seconds, rate = arguments.seconds, arguments.rate
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        spark = bench_env.spark()
        for name in arguments.only.split(","):
            before = os.getloadavg()[0]
            match name:
                case "hop":
                    found[name] = messages(bench_env, spark, {"real_time": f"{REAL_TIME_S}s"}, seconds, rate)
                case "alerts":
                    found[name] = messages(bench_env, spark, {"every": "100ms"}, seconds, rate)
                case "table":
                    found[name] = table(bench_env, spark, seconds, rate)
            found[name]["load"] = f"{before:.1f} before, {os.getloadavg()[0]:.1f} after"
            print(name, found[name], file=sys.stderr, flush=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({"machine": machine, "records_per_second": rate, "seconds": seconds, **found}))


if __name__ == "__main__":
    main()
