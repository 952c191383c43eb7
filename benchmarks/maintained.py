"""What maintenance is worth, and what it costs beside the plainest way to do it.

Runs against a stack that is up (`lakeward stack up --only postgres,connect`), in a namespace of its own that it drops:

    python benchmarks/maintained.py --home .lakeward [--only scan,tiny,many] [--megabytes 300] [--pairs 9]

`scan`: a table of 1 MB files, the same after its compaction, and the same rows written as one set of full files; a
full-scan aggregation over each in turns, CPU seconds of the server and wall time; and how long a reader plans it.
`tiny`: a rewrite of 25 files of 1 MB on the warm server, from the call to the verified result.
`many`: 20 small due tables in one process, CPU seconds of it and of the server, beside one bare spark-submit that
starts Spark with the same catalog and compacts one of these tables. One JSON object; ratios depend on the machine
less than times do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa
from tables import NAMESPACE, machine, scratch

from lakeward import jars
from lakeward.connectors.iceberg.catalog import spark_conf
from lakeward.connectors.spark.connect import session
from lakeward.tables import run
from lakeward.tables.act.server import cpu_of_server
from lakeward.tables.context import MaintenanceContext

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("value", pa.float64()), ("text", pa.string())])
QUERY = "SELECT place, count(*), avg(value), max(text) FROM lake.{table} GROUP BY place"
SUBMIT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
call = "CALL lake.system.rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))"
spark.sql(call.format(sys.argv[1])).collect()
spark.stop()
"""


def rows(count: int, seed: int) -> pa.Table:
    """About 56 bytes a row that no codec makes smaller."""
    chance = random.Random(seed)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "place": [f"P{chance.randrange(40):02d}" for _ in range(count)],
            "value": [chance.random() for _ in range(count)],
            "text": [f"{chance.getrandbits(128):032x}" for _ in range(count)],
        },
        SCHEMA,
    )


def small_files(site: MaintenanceContext, name: str, files: int, per_file: int = 26_000) -> None:
    """A table of this many files of about 1 MB, each its own commit."""
    table = site.catalog.create_table(f"{NAMESPACE}.{name}", SCHEMA)
    for number in range(files):
        table.append(rows(per_file, number))


def scan(site: MaintenanceContext, megabytes: int, pairs: int) -> dict[str, Any]:
    """A full scan before, after, and of the same rows in full files; a reader's planning."""
    for name in ("before", "after"):
        small_files(site, name, megabytes)
    site.catalog.create_table(f"{NAMESPACE}.ideal", SCHEMA)
    with session(site.runtime) as spark:
        spark.sql(f"INSERT INTO lake.{NAMESPACE}.ideal SELECT * FROM lake.{NAMESPACE}.before").collect()
        done = run.maintain(site.runtime, site.project, f"{NAMESPACE}.after", ["compact"])["actions"][0]
        assert done["result"] == "done", done["why"]
        sides = ("before", "after", "ideal")
        counts = {side: len(list(site.load(f"{NAMESPACE}.{side}").scan().plan_files())) for side in sides}
        cpu: dict[str, list[float]] = {side: [] for side in sides}
        wall: dict[str, list[float]] = {side: [] for side in sides}
        plans: dict[str, list[float]] = {side: [] for side in sides}
        for lap in range(pairs + 1):
            for side in sides if lap % 2 else sides[::-1]:
                statement = QUERY.format(table=f"{NAMESPACE}.{side}")
                begun = perf_counter()
                with cpu_of_server(site.runtime) as spent:
                    spark.sql(statement).collect()
                took = perf_counter() - begun
                table = site.load(f"{NAMESPACE}.{side}")
                begun = perf_counter()
                list(table.scan().plan_files())
                if lap:  # the first lap warms the server
                    cpu[side].append(spent[0])
                    wall[side].append(took)
                    plans[side].append((perf_counter() - begun) * 1000)
    return {
        "files": counts,
        "cpu_s": {side: round(median(values), 3) for side, values in cpu.items()},
        "wall_s": {side: round(median(values), 3) for side, values in wall.items()},
        "plan_ms": {side: round(median(values), 1) for side, values in plans.items()},
        "after_over_ideal_cpu": _ratio(cpu["after"], cpu["ideal"]),
        "before_over_after_cpu": _ratio(cpu["before"], cpu["after"]),
        "plan_after_over_ideal": _ratio(plans["after"], plans["ideal"]),
    }


def tiny(site: MaintenanceContext) -> dict[str, Any]:
    """A rewrite of 25 MB, all steps of `maintain` included."""
    small_files(site, "tiny", 25)
    with session(site.runtime) as spark:
        spark.sql("SELECT 1").collect()
    begun = perf_counter()
    done = run.maintain(site.runtime, site.project, f"{NAMESPACE}.tiny", ["compact"])["actions"][0]
    return {
        "result": done["result"],
        "whole_s": round(perf_counter() - begun, 2),
        "statement_s": done["duration_s"],
        "server_cpu_s": done["cpu_s"],
    }


def many(site: MaintenanceContext, tables: int = 20) -> dict[str, Any]:
    """Small due tables in one process beside one bare spark-submit."""
    names = [f"{NAMESPACE}.many_{number}" for number in range(tables)]
    for name in names:
        small_files(site, name.rpartition(".")[2], 6, 200)
    small_files(site, "submitted", 6, 200)
    run.maintain(site.runtime, site.project, names.pop(), ["compact"])  # imports, and the server's first rewrite
    client = process_time()
    with cpu_of_server(site.runtime) as server:
        results = [run.maintain(site.runtime, site.project, name)["actions"] for name in names]
    client = process_time() - client
    assert all(each and each[0]["result"] == "done" for each in results), results
    submitted = _submit(site, f"{NAMESPACE}.submitted")
    return {
        "tables": len(names),
        "client_cpu_s": round(client, 2),
        "server_cpu_s": round(server[0], 2),
        "spark_submit_cpu_s": round(submitted, 2),
        "ratio": round((client + server[0]) / submitted, 2),
    }


def _submit(site: MaintenanceContext, table: str) -> float:
    """CPU seconds of a spark-submit that compacts one table, its JVM included."""
    conf = spark_conf(site.runtime.lake) | {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars.spark_classpath()),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "compact.py")
        script.write_text(SUBMIT)
        options = [f"--conf={key}={value}" for key, value in conf.items()]
        submit = Path(sys.executable).with_name("spark-submit")
        environment = {**os.environ, "PGPASSFILE": str(site.runtime.pgpass), "PYSPARK_PYTHON": sys.executable}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([submit, *options, script, table], env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ratio(above: list[float], below: list[float]) -> dict[str, Any]:
    found = [a / b for a, b in zip(above, below, strict=True)]
    low, _, high = quantiles(found, n=4) if len(found) > 1 else (found[0],) * 3
    return {"median": round(median(found), 2), "quartiles": [round(low, 2), round(high, 2)]}


def main() -> None:
    """Print one JSON document with the figures and the machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--only", default="scan,tiny,many")
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    with scratch(given.home) as site:
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            "scan": lambda: scan(site, given.megabytes, given.pairs),
            "tiny": lambda: tiny(site),
            "many": lambda: many(site),
        }
        figures = {name: measures[name]() for name in given.only.split(",")}
    print(json.dumps({**figures, "machine": machine()}, indent=2))


if __name__ == "__main__":
    main()
