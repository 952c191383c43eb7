"""A Delta table on an object store that two writers, OPTIMIZE and VACUUM change at once, each a Spark of its own.

    python tests/faults/delta_s3_races.py --versions 500 --seed 1

It prints one JSON line: the versions of the log, the commits that were acknowledged to the writers, those that no
version holds (overwritten) and those that two hold (doubled); `rows` is null if a file of the table is missing.
`--delta` uses Delta's own store for S3, which is not conditional: a proof that lost commits would be found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

import object_store
from delta_s3 import DELTA_S3

from lakeward import jars
from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.iceberg import catalog
from lakeward.platform.runtime import Lake

WAREHOUSE, TABLE = "s3://lake/warehouse", "races.rows"
WRITERS = ("stream", "backfill")
KEPT_HOURS = 0.05  # longer than a write that is under way: VACUUM must not delete its files


def session(lake: Lake, log_store: str) -> Any:
    """A Spark session as a driver's, on one core."""
    from pyspark.sql import SparkSession

    os.environ.update(catalog.environment(lake), SPARK_LOCAL_IP="127.0.0.1")
    conf = {
        "spark.master": "local[1]", "spark.driver.memory": "600m", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.spark_classpath())),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(), **catalog.spark_conf(lake),
        "spark.delta.logStore.s3a.impl": log_store,
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",  # tasks of a VACUUM; else ten thousand
    }  # fmt: skip
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(role: str, lake: Lake, log_store: str, commits: int) -> None:
    """What one process does; a line for each acknowledged commit. It begins when its stdin says so."""
    spark = session(lake, log_store)
    spark.sparkContext.setLogLevel("ERROR")
    table = location.by_path(location.folder_of(lake, TABLE))
    print(json.dumps({"ready": role}), flush=True)
    sys.stdin.readline()
    for number in range(commits):
        name = f"{role}/{number}"
        spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", name)
        if role in WRITERS:
            spark.sql(f"INSERT INTO {table} VALUES ('{role}', {number})")
        elif number % 2:
            spark.sql(f"VACUUM {table} RETAIN {KEPT_HOURS} HOURS")
        else:
            spark.sql(f"OPTIMIZE {table}")
        print(json.dumps({"done": name}), flush=True)
        if role not in WRITERS and ended():
            break
    spark.stop()


def ended() -> bool:
    """Whether the writers are done, so that maintenance ends too."""
    return Path(os.environ["LAKEWARD_RACES_END"]).exists()


def race(versions: int, seed: str, *, delta: bool) -> dict[str, Any]:
    """One trial."""
    log_store = DELTA_S3 if delta else jars.own.S3_CLASS
    with tempfile.TemporaryDirectory() as folder, object_store.running(Path(folder) / "weed") as weed:
        lake = Lake(warehouse=WAREHOUSE, store=weed.store)
        end = Path(folder) / "end"
        spark = session(lake, log_store)
        at = location.folder_of(lake, TABLE)
        spark.sql(f"CREATE TABLE {location.by_path(at)} (writer STRING, number INT) USING delta")
        share = versions // len(WRITERS)
        roles = {**dict.fromkeys(WRITERS, share), "maintenance": versions}
        started = {
            role: subprocess.Popen(
                [sys.executable, __file__, "--role", role, "--lake", lake.model_dump_json(), "--store", log_store,
                 "--versions", str(commits)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "LAKEWARD_RACES_END": str(end)},
            )
            for role, commits in roles.items()
        }  # fmt: skip
        try:
            for process in started.values():
                while "ready" not in (line := process.stdout.readline()):
                    assert line, "a process ended before it was ready"
            for process in started.values():
                process.stdin.write("go\n")
                process.stdin.flush()
            outputs = {role: started[role].communicate()[0] for role in WRITERS}
            end.touch()
            outputs["maintenance"] = started["maintenance"].communicate()[0]
        finally:
            for process in started.values():
                process.kill()
                process.wait()
        done = [json.loads(line)["done"] for text in outputs.values() for line in text.splitlines() if "done" in line]
        written = {name for name in done if not name.startswith("maintenance/")}
        listed = DeltaLog(at).listing().versions
        commits = [log.commit(at, version) for version in listed]
        held = Counter(each.attempt for each in commits if each is not None and each.operation == "WRITE")
        rows = rows_of(spark, location.by_path(at))
        seen = Counter(rows)
        spark.stop()
    overwritten = sorted(written - set(held))
    doubled = sorted(name for name, count in (held + Counter()).items() if count > 1 or seen[name] > 1)
    operations = Counter(each.operation for each in commits if each is not None)
    ends = [process.returncode for process in started.values()]
    damaged = bool(overwritten or doubled or rows is None)
    complete = len(written) == share * len(WRITERS) and set(seen) == written and not any(ends)
    return {
        "seed": seed, "ok": damaged if delta else complete and not damaged, "log_store": log_store,
        "versions": len(listed), "acknowledged": len(written), "rows": None if rows is None else len(rows),
        "overwritten": len(overwritten), "doubled": len(doubled), "optimized": operations["OPTIMIZE"],
        "vacuums": sum(name.startswith("maintenance/") and int(name.split("/")[1]) % 2 for name in done),
        "processes": ends,
    }  # fmt: skip


def rows_of(spark: Any, table: str) -> list[str] | None:
    """The names of all rows; None if a file is missing: VACUUM deletes what a commit that is lost has written."""
    from py4j.protocol import Py4JJavaError

    try:
        found = spark.sql(f"SELECT concat(writer, '/', number) AS name FROM {table}").collect()
    except Py4JJavaError as error:
        if "FILE_NOT_EXIST" not in str(error):
            raise
        return None
    return [row.name for row in found]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, kind, default in (("versions", int, 500), ("seed", str, "1"), ("role", str, ""), ("lake", str, ""),
                                ("store", str, "")):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--results", type=Path, help="append the line to this file")
    given = parser.parse_args()
    if given.role:
        run(given.role, Lake.model_validate_json(given.lake), given.store, given.versions)
        return
    found = race(given.versions, given.seed, delta=given.delta)
    print(json.dumps(found), flush=True)
    if given.results is not None:
        with given.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    sys.exit(0 if found["ok"] else 1)


if __name__ == "__main__":
    main()
