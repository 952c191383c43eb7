"""What a commit of a stream costs after a thousand others, with maintenance and without, and whether rewrites land.

Runs against a stack that is up (`lakeward stack up --only postgres,connect`), in a namespace of its own that it drops:

    python benchmarks/commit_cost.py --home .lakeward [--commits 1000] [--rows 200] [--every 0]

One stream lands a small batch after the other exactly once, first alone, then while `lakeward tables maintain` runs on
its table without a pause, time shortened sixty-fold: fragments are packed and snapshots expired a minute after they
came. Of both: the median of the commits 50 to 100 and of the last fifty, staging and publishing apart. `--every`
spaces the batches, in seconds. One JSON object; ratios depend on the machine less than times do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from subprocess import run as run_process
from threading import Event, Thread
from typing import Any

from bench_environment import spark_on
from tables import NAMESPACE, machine, scratch

from lakeward.connectors.iceberg import table
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.platform.runtime import Home, Runtime
from lakeward.tables.context import MaintenanceContext

POLICY = f"""
unsafe:
  - match: {NAMESPACE}.*
    why: sixty-fold time
    compact: {{cooldown: 30s, late_after: 1m, cold_after: 10m}}
    expire: {{older_than: 1m, every: 0s}}
    tags: {{enabled: false}}
"""


def land(spark: Any, name: str, commits: int, rows: int, every: float) -> list[tuple[float, float]]:
    """Land so many batches; milliseconds of staging and of publishing of each."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    source = source.selectExpr("value", "timestamp at", "repeat(CAST(value AS STRING), 5) text")
    table.create(spark, name, source.schema)
    sink, took = IcebergWriter(spark, name, name, name, stateful=False), []
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = source.writeStream.queryName(name).option("checkpointLocation", checkpoint)
        query = (
            writer.trigger(processingTime=f"{every} seconds")
            .foreachBatch(lambda frame, batch: took.append(sink.land(frame, batch)))
            .start()
        )
        while len(took) < commits:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.1)
        query.stop()
    return [(each.stage_ms, each.publish_ms) for each in took[:commits]]


def maintain(site: MaintenanceContext, name: str, home: Path, over: Event, found: list[dict[str, Any]]) -> None:
    """Maintain the table again and again, each time as the command line does."""
    command = [sys.executable, "-m", "lakeward", "--home", str(home), "--project", str(site.project.root), "-o", "json"]
    while not over.is_set():
        done = run_process([*command, "tables", "maintain", name], capture_output=True, text=True)
        try:
            report = json.loads(done.stdout)
            left = [f"{each['action']}: {each['why']}" for each in report["plan"]["not_planned"]]
            print(f"{len(found)} actions; not due: {'; '.join(left)}", file=sys.stderr)
            found.extend(report["actions"])
        except (ValueError, KeyError):
            found.append({"action": "none", "result": "refused", "why": done.stderr[-300:]})
        over.wait(2)


def figures(took: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians in milliseconds, early and late, and what late is of early."""
    whole = [sum(each) for each in took]
    early, late = median(whole[50:100]), median(whole[-50:])
    return {
        "early_ms": round(early),
        "late_ms": round(late),
        "late_over_early": round(late / early, 2),
        "publish_ms": [round(median(each[1] for each in part)) for part in (took[50:100], took[-50:])],
    }


def main() -> None:
    """Print one JSON document with the figures and the machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=Path(".lakeward"))
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--every", type=float, default=0.0)
    given = parser.parse_args()
    os.environ["PGPASSFILE"] = str(Runtime.load(Home.locate(given.home).runtime_file).pgpass)
    with tempfile.TemporaryDirectory() as folder, scratch(given.home, POLICY) as site:
        spark = spark_on(site.runtime.lake, Path(folder))
        begun = time.monotonic()
        off = figures(land(spark, f"{NAMESPACE}.off", given.commits, given.rows, given.every))
        between, over, actions = time.monotonic(), Event(), list[dict[str, Any]]()
        name = f"{NAMESPACE}.on"
        worker = Thread(target=maintain, args=(site, name, given.home, over, actions))
        worker.start()
        try:
            on = figures(land(spark, name, given.commits, given.rows, given.every))
        finally:
            over.set()
            worker.join()
        ended = time.monotonic()
        spark.stop()
        facts = site.load(name)
        landed = facts.scan(selected_fields=("value",)).to_arrow()["value"]
        left = {"files": len(list(facts.scan().plan_files())), "snapshots": len(facts.snapshots())}
    rewrites = Counter(each["result"] for each in actions if each["action"] == "compact")
    document = {
        "commits": given.commits,
        "without_maintenance": off | {"commits_per_s": round(given.commits / (between - begun), 2)},
        "with_maintenance": on | {"commits_per_s": round(given.commits / (ended - between), 2)},
        "rewrites": dict(rewrites),
        "other_actions": dict(Counter(f"{e['action']} {e['result']}" for e in actions if e["action"] != "compact")),
        "failures": [each["why"] for each in actions if each["result"] != "done"][:5],
        "rows": {"landed": len(landed), "distinct": len(landed.unique())},
        "left": left,
        "machine": machine(),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
