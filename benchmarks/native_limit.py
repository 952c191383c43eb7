"""What a declared stream costs against the limit of the machine: one process, native code, no guarantee.

    python benchmarks/native_limit.py [--per-batch 20000] [--records 200000] [--pairs 9]

The same topic (flights) lands in an Iceberg table three ways, in turns: by the declared stream; by a loop of poll,
DuckDB's `from_json` with the same types, and PyIceberg's append; and by the same loop with PyArrow's reader of JSON
lines. The loops have the same batches and columns. They check nothing, keep no checkpoint, count nothing, and land
twice what they read twice. Counted are rows per CPU second of the process tree (Python and the JVM). One JSON object:
the median and the quartiles of the ratios, declared to native.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.json as pa_json
from bench_environment import BenchEnvironment, cpu_seconds
from confluent_kafka import Consumer
from engine import DDL, Bench, fill
from pyiceberg.catalog import load_catalog

from lakeward.connectors.iceberg.catalog import pyiceberg_properties

DUCKDB_TYPES = {"INT": "INTEGER", "DOUBLE": "DOUBLE", "STRING": "VARCHAR", "TIMESTAMP": "TIMESTAMPTZ"}
ARROW_TYPES = {"INT": pa.int32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", "UTC")}
COLUMNS = dict(part.split() for part in DDL.split(", "))
SCHEMA = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in COLUMNS.items()])
POSITION = pa.schema([("_kafka_topic", pa.string()), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())])


def by_duckdb(values: list[bytes]) -> pa.Table:
    """The records' columns."""
    structure = json.dumps({name: DUCKDB_TYPES[kind] for name, kind in COLUMNS.items()})
    records = duckdb.from_arrow(pa.table({"value": pa.array([value.decode() for value in values])}))
    return records.project(f"unnest(from_json(value, '{structure}'))").to_arrow_table().cast(SCHEMA)


def by_pyarrow(values: list[bytes]) -> pa.Table:
    """The same; times are read as text first, since the reader has no times with a zone."""
    as_text = pa.schema(
        [(each.name, pa.string() if pa.types.is_timestamp(each.type) else each.type) for each in SCHEMA]
    )
    options = pa_json.ParseOptions(explicit_schema=as_text, unexpected_field_behavior="ignore")
    table = pa_json.read_json(io.BytesIO(b"\n".join(values)), parse_options=options)
    return table.select(SCHEMA.names).cast(SCHEMA)


def batches(bootstrap: str, topic: str, records: int, per_batch: int) -> Iterator[list[Any]]:
    """The topic's messages from its beginning."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([topic])
    left = records
    try:
        while left:
            batch: list[Any] = []
            while len(batch) < min(per_batch, left):
                batch += consumer.consume(min(per_batch, left) - len(batch), timeout=1.0)
            left -= len(batch)
            yield batch
    finally:
        consumer.close()


def native(bench: Bench, decode: Callable[[list[bytes]], pa.Table]) -> float:
    """Rows per CPU second of a loop, from the end of the first batch to the end of the last, as of the stream."""
    lake = load_catalog("lake", **pyiceberg_properties(bench.bench_env.lake))
    table = lake.create_table(f"bench.native{uuid4().hex[:8]}", pa.schema([*SCHEMA, *POSITION]))
    landed, begun = 0, 0.0
    for number, messages in enumerate(batches(bench.bench_env.bootstrap, bench.topic, bench.records, bench.per_batch)):
        rows = decode([message.value() for message in messages])
        position = {
            "_kafka_topic": [message.topic() for message in messages],
            "_kafka_partition": [message.partition() for message in messages],
            "_kafka_offset": [message.offset() for message in messages],
        }
        table.append(pa.table([*rows.columns, *pa.table(position, POSITION).columns], schema=table.schema().as_arrow()))
        if number:
            landed += len(messages)
        else:
            begun = cpu_seconds()
    return landed / (cpu_seconds() - begun)


def main() -> None:
    """Print the ratios and the machine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--per-batch", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    ways = {"duckdb": by_duckdb, "pyarrow": by_pyarrow}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder, BenchEnvironment(Path(folder)) as bench_env:
        topic = bench_env.topic("flights", partitions=2)
        fill(bench_env.bootstrap, topic, given.records)
        bench = Bench(bench_env, topic, given.records, given.per_batch, "append", "same")
        for turn in range(-1, given.pairs):  # the first one warms both up
            found = {name: native(bench, decode) for name, decode in ways.items()} if turn % 2 else {}
            ours = bench.lakeward()
            found = found or {name: native(bench, decode) for name, decode in ways.items()}
            print(f"{ours:8.0f} against {found} rows per CPU-s", file=sys.stderr, flush=True)
            if turn >= 0:
                for name, rate in found.items():
                    ratios[name].append(ours / rate)
    quartiles = {
        name: dict(
            zip(("lower_quartile", "median", "upper_quartile"), (round(q, 2) for q in statistics.quantiles(each, n=4)),
                strict=True)
        )
        for name, each in ratios.items()
    }  # fmt: skip
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(json.dumps({"machine": machine, "records": given.records, "per_batch": given.per_batch, "pairs": given.pairs,
                      "rows_per_cpu_second_ratio": quartiles}))  # fmt: skip


if __name__ == "__main__":
    main()
