"""What an observation of many tables of others costs over an Iceberg REST catalog: SeaweedFS, with its files on its S3.

    python benchmarks/observe_rest.py [--tables 1000] [--rounds 3]

No stream lands in the tables; every tenth has rows. The first observation reads them all; between the others nothing
changes. Reported as one JSON object: seconds and CPU-seconds of this process, without those of the server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench_registry import registry_of_many

from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.telemetry import logs

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # of the tests, which have the server
import object_store

SPACES = 10
ROWS = pa.table({"n": pa.array([1], pa.int64())})


def measured(runtime: Runtime, project: Project, tables: int) -> dict[str, float]:
    """One observation of all tables."""
    began, cpu = time.monotonic(), time.process_time()
    seen = run.observe(runtime, project)
    took = {"seconds": round(time.monotonic() - began, 1), "cpu_s": round(time.process_time() - cpu, 1)}
    assert len(seen["tables"]) == tables, "a table was not observed"
    return took


def measure(runtime: Runtime, folder: Path, tables: int, rounds: int) -> dict[str, Any]:
    project = Project(folder / "project")
    project.tables_file.parent.mkdir(parents=True)
    catalog = MaintenanceContext.of(runtime, project).catalog
    for space in range(SPACES):
        catalog.create_namespace(f"s{space}")
    for number in range(tables):
        made = catalog.create_table(f"s{number % SPACES}.t{number}", ROWS.schema)
        if number % 10 == 0:
            made.append(ROWS)
    first = measured(runtime, project, tables)
    unchanged = [measured(runtime, project, tables) for _ in range(rounds)]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "tables": tables,
        "first": first,
        "nothing_changed": sorted(unchanged, key=lambda each: each["seconds"])[rounds // 2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    logs.to_stderr()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as scratch, registry_of_many(0) as runtime:
        folder = Path(scratch)
        with object_store.running(folder / "weed", catalog=True) as weed:
            more: dict[str, Any] = {"store": weed.store, "properties": weed.rest, "login": weed.log_in()}
            here = runtime.model_copy(update={"lake": Lake(name="prod", warehouse="s3://lake", **more)})
            print(json.dumps(measure(here, folder, arguments.tables, arguments.rounds)))


if __name__ == "__main__":
    main()
