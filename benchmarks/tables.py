"""What maintenance costs: the due-check of an unchanged table, and the throughput of a compaction.

Runs against a stack that is up (`lakeward stack up --only postgres,connect`), in a namespace of its own that it drops:

    python benchmarks/tables.py --home .lakeward --tables 50 --megabytes 200
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import pyarrow as pa

from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.telemetry import logs

NAMESPACE = "bench_tables"
POLICY = f"""
unsafe:
  - match: {NAMESPACE}.*
    why: benchmark
    compact: {{min_fragments: 4, fragment_ratio: 0.5, cooldown: 1ms}}
"""


def main() -> None:
    """Print one JSON document with the figures and the machine."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--home", type=Path, default=None)
    arguments.add_argument("--tables", type=int, default=50)
    arguments.add_argument("--megabytes", type=int, default=200)
    given = arguments.parse_args()
    with scratch(given.home) as site:
        figures = {"due_check": due_check(site, given.tables), "compaction": compaction(site, given.megabytes)}
    print(json.dumps({**figures, "machine": machine()}, indent=2))


@contextmanager
def scratch(home: Path | None, policy: str = POLICY) -> Iterator[MaintenanceContext]:
    """The stack's lake with a namespace of this run's own, dropped at the end."""
    logs.to_stderr()
    runtime = Runtime.load(Home.locate(home).runtime_file)
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.tables_file.parent.mkdir()
        project.tables_file.write_text(policy)
        site = MaintenanceContext.of(runtime, project)
        site.catalog.create_namespace_if_not_exists(NAMESPACE)
        try:
            yield site
        finally:
            for name in site.catalog.list_tables(NAMESPACE):
                site.catalog.purge_table(name)
            site.catalog.drop_namespace(NAMESPACE)


def machine() -> dict[str, object]:
    """What the figures depend on."""
    return {"cores": os.cpu_count(), "platform": platform.platform(), "load": os.getloadavg()[0]}


def due_check(site: MaintenanceContext, tables: int) -> dict[str, float]:
    """Milliseconds a table: the first look reads manifests, the second finds nothing changed."""
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    names = [f"{NAMESPACE}.due_{number}" for number in range(tables)]
    for name in names:
        table = site.catalog.create_table(name, rows.schema)
        for _ in range(5):
            table.append(rows)
    taken = []
    for _ in range(4):
        begun = perf_counter()
        run.observe(site.runtime, site.project, names)
        taken.append((perf_counter() - begun) * 1000 / tables)
    return {"tables": tables, "first_ms": round(taken[0], 1), "unchanged_ms": round(median(taken[1:]), 1)}


def compaction(site: MaintenanceContext, megabytes: int) -> dict[str, object]:
    """MB/s of a rewrite of 4 MB files on the warm server, all steps of `maintain` included, and of the statement."""
    seed = random.Random(7)
    rows = 130_000
    table = site.catalog.create_table(f"{NAMESPACE}.big", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    while sum(task.file.file_size_in_bytes for task in table.scan().plan_files()) < megabytes << 20:
        text = [f"{seed.getrandbits(160):040x}" for _ in range(rows)]
        table.append(pa.table({"id": pa.array(range(rows), pa.int64()), "text": text}))
    with session(site.runtime) as spark:
        spark.sql("SELECT 1").collect()
    begun = perf_counter()
    done = run.maintain(site.runtime, site.project, f"{NAMESPACE}.big", ["compact"])["actions"][0]
    whole = perf_counter() - begun
    size = done["before"]["promised_bytes"] / (1 << 20)
    return {
        "result": done["result"],
        "megabytes": round(size),
        "files": [done["before"]["files"], done["after"]["files"]],
        "statement_mb_per_second": round(size / done["duration_s"], 1),
        "whole_mb_per_second": round(size / whole, 1),
        "cpu_s": done["cpu_s"],
        "mb_per_cpu_second": round(size / done["cpu_s"], 1) if done["cpu_s"] else None,
    }


if __name__ == "__main__":
    main()
