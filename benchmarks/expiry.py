"""What expiry costs: CPU seconds of `maintain --actions expire` against another source tree, in turns ABBA.

    python benchmarks/expiry.py --other /path/to/other/src [--commits 60] [--files 8] [--pairs 9]

Each tree has a stack of its own (PostgreSQL and the Connect server) and a process that makes tables and expires them.
Every table has `--commits` overwrites, each of `--files` files, so that expiry removes nearly all snapshots and files.
Counted are that process, the Connect server and PostgreSQL with its backends; the making of the tables is not. One JSON
object: the median and quartiles of the ratios (other / this: above 1, this one is cheaper).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_trees

ONE = """
import json, sys
from pathlib import Path
import pyarrow as pa
from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard import pins
from lakeward.telemetry import logs
from datetime import timedelta
pins.STAGED_FLOOR = timedelta(0)
logs.to_stderr()
home, project, commits, files = Path(sys.argv[1]), Project(Path(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4])
site = MaintenanceContext.of(Runtime.load(Home.locate(home).runtime_file), project)
site.catalog.create_namespace_if_not_exists("bench")
with session(site.runtime) as spark:
    spark.sql("SELECT 1").collect()
rows = pa.table({"part": pa.array(range(files), pa.int32()), "text": ["x" * 50] * files})
for number, _ in enumerate(sys.stdin):
    name = f"bench.t{number}"
    with session(site.runtime) as spark:
        spark.sql(f"CREATE TABLE lake.{name} (part INT, text STRING) USING iceberg PARTITIONED BY (part)").collect()
    table = site.catalog.load_table(name)
    for _ in range(commits):
        table.overwrite(rows)
    print("made", flush=True)
    next(sys.stdin)
    [done] = run.maintain(site.runtime, site.project, name, ["expire"])["actions"]
    left = len(site.catalog.load_table(name).metadata.snapshots)
    print(json.dumps({"result": done["result"], "snapshots": left}), flush=True)
"""
POLICY = """
unsafe:
  - match: bench.*
    why: benchmark
    expire: {older_than: 1ms, min_snapshots: 1, every: 0s}
    tags: {enabled: false}
"""


class Side:
    """One tree with its process."""

    def __init__(self, source: Path, folder: Path, commits: int, files: int) -> None:
        self.tree = bench_trees.Tree(source, folder, {"conf/tables.yaml": POLICY}, "postgres,connect")
        command = [sys.executable, "-c", ONE, str(self.tree.home), str(self.tree.project), str(commits), str(files)]
        self._process = subprocess.Popen(
            command, env=self.tree.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def once(self) -> dict[str, float]:
        """CPU seconds of one expiry."""
        self._answer()
        before = self.tree.cpu([self._process.pid])
        done = json.loads(self._answer())
        if done["result"] != "done" or done["snapshots"] > 2:
            raise RuntimeError(f"not expired: {done}")
        return {"expiry": self.tree.cpu([self._process.pid]) - before}

    def close(self) -> None:
        """End the process and the stack."""
        self._process.stdin.close()
        self._process.wait()
        self.tree.close()

    def _answer(self) -> str:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def main() -> None:
    """Print the ratios and the machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, default=bench_trees.HERE, help="the other tree's src")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = {"this": bench_trees.HERE, "other": given.other.resolve()}
        sides = {name: Side(tree, Path(folder) / name, given.commits, given.files) for name, tree in trees.items()}
        try:
            for side in sides.values():  # the JVM compiles
                side.once()
            ratios = bench_trees.in_turns(list(sides), given.pairs, lambda name: sides[name].once())
        finally:
            for side in sides.values():
                side.close()
    bench_trees.report(ratios, commits=given.commits, files=given.files, pairs=given.pairs)


if __name__ == "__main__":
    main()
