"""What publishing a batch costs through a REST catalog and through the embedded one, in turns in one Spark application.

    python benchmarks/publication_rest.py [--batches 60]

Both tables are on the same object store: the catalogs alone differ. A batch has four rows. Reported as one JSON object:
milliseconds from the staged snapshot to the landed batch, and for the whole batch; the first ten of each are left out.
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
from typing import TYPE_CHECKING, Any

from bench_registry import registry_of_many

from lakeward.connectors.iceberg import table
from lakeward.connectors.iceberg.catalog import create_schema
from lakeward.platform.runtime import Lake, Runtime
from lakeward.telemetry import failpoints, logs

sys.path.append(str(Path(__file__).parents[1] / "tests" / "faults"))  # of the tests, which have writer and server
import object_store
from rest_fence_program import ROWS, SCHEMA, STREAM, Planned, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"embedded": "bench.rows", "rest": "staging.bench.rows"}
WARM = 10


def landed(spark: SparkSession, name: str, batch: int) -> tuple[float, float]:
    """Land a batch; milliseconds of its publication, and of all of it."""
    reached: list[float] = []
    rows = [("t", 0, value, str(value)) for value in range(ROWS * batch, ROWS * (batch + 1))]
    writer = Planned(spark, STREAM, name, "none", stateful=False)
    frame = spark.createDataFrame(rows, SCHEMA)
    began = time.perf_counter()
    with failpoints.on("before-publish", lambda: reached.append(time.perf_counter())):
        writer.land(frame, batch)
    ended = time.perf_counter()
    return (ended - reached[-1]) * 1000, (ended - began) * 1000


def measure(lake: Lake, folder: Path, batches: int) -> dict[str, Any]:
    took: dict[str, list[tuple[float, float]]] = {kind: [] for kind in TABLES}
    with started(folder, lake) as spark:
        for name in TABLES.values():
            table.create(spark, name, spark.createDataFrame([], SCHEMA).schema, ())
        for batch in range(batches + WARM):
            for kind in sorted(TABLES, reverse=bool(batch % 2)):
                took[kind].append(landed(spark, TABLES[kind], batch))
    publication = {kind: [each[0] for each in found[WARM:]] for kind, found in took.items()}
    whole = {kind: [each[1] for each in found[WARM:]] for kind, found in took.items()}
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "batches": batches,
        "publication_ms": {kind: round(statistics.median(each)) for kind, each in publication.items()},
        "batch_ms": {kind: round(statistics.median(each)) for kind, each in whole.items()},
        "publication_ratio": _ratio(publication),
        "batch_ratio": _ratio(whole),
    }


def _ratio(milliseconds: dict[str, list[float]]) -> dict[str, float]:
    """Of each pair, REST by embedded: the median and its quartiles."""
    pairs = [rest / own for rest, own in zip(milliseconds["rest"], milliseconds["embedded"], strict=True)]
    first, median, third = statistics.quantiles(pairs, n=4)
    return {"lower_quartile": round(first, 2), "median": round(median, 2), "upper_quartile": round(third, 2)}


def lake_of(runtime: Runtime, weed: object_store.Weed) -> Lake:
    weed.system().create_dir("plain")
    rest: dict[str, Any] = {"store": weed.store, "properties": weed.rest, "login": weed.log_in()}
    staging = Lake(name="staging", warehouse="s3://lake", **rest)
    lake = Lake(port=runtime.lake.port, warehouse="s3://plain", store=weed.store, others=(staging,))
    create_schema(lake, runtime.pgpass)
    return lake


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=60)
    arguments = parser.parse_args()
    logs.to_stderr()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as scratch, registry_of_many(0) as runtime:
        os.environ["PGPASSFILE"] = str(runtime.pgpass)
        with object_store.running(Path(scratch) / "weed", catalog=True) as weed:
            print(json.dumps(measure(lake_of(runtime, weed), Path(scratch), arguments.batches)))


if __name__ == "__main__":
    main()
