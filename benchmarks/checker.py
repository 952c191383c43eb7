"""What a check run costs with the resident checker and without it, on a stack that runs: whole process trees.

    lakeward --home H --project P stack up --only checker --no-deploy
    python benchmarks/checker.py --home H --project P [--rounds 5] [--output FILE]

Makes tables of a few rows, checks one of them again and again after an append, alternating: served by the checker, and
by a process of the asker's own (as where no checker is up). Then runs over one and over `--tables` due tables: the
difference is what one more due table costs. CPU is that of the asker and its children, of the checker's tree, and
beside them of the Spark Connect server. Then the checker stands idle for a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from lakeward.connectors.spark.connect import session
from lakeward.platform.runtime import Home, Project, Runtime, registry_url
from lakeward.quality import check
from lakeward.stack.stack import Stack

SUITE = """\
table: {table}
owner: benchmark
expectations:
  - {{type: expect_column_values_to_not_be_null, kwargs: {{column: id}}, severity: critical, on_fail: hold}}
  - {{type: expect_column_values_to_be_in_set, kwargs: {{column: carrier, value_set: [AA, UA]}}, severity: critical}}
  - {{type: expect_column_values_to_be_between, kwargs: {{column: delay, min_value: 0, max_value: 500}}}}
  - {{type: expect_column_mean_to_be_between, kwargs: {{column: delay, min_value: 0, max_value: 500}}}}
"""
ROWS = 1000


def tree(pid: int) -> tuple[float, int]:
    """CPU-seconds and resident bytes of a process and its living descendants, with its dead children's CPU."""
    cpu, rss = 0.0, 0
    for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        used = each.cpu_times()
        cpu += used.user + used.system
        rss += each.memory_info().rss
    own = psutil.Process(pid).cpu_times()
    return cpu + own.children_user + own.children_system, rss


def own_cpu() -> float:
    """CPU-seconds of this process and of the children it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


class Bench:
    """The parts of a running stack, and tables of this benchmark in its lake."""

    def __init__(self, home: Home, project: Project, tables: int) -> None:
        self.home, self.project = home, project
        self.runtime, self.url = Runtime.load(home.runtime_file), registry_url(home)
        pids = {part.name: part.pid for part in Stack(project, home).status()}
        if not pids.get("checker"):
            raise SystemExit("no checker is up: lakeward stack up --only checker --no-deploy")
        self.checker, self.connect = pids["checker"] or 0, pids["connect"] or 0
        self.names = [f"bench.checked_{number}" for number in range(tables)]
        self.alone = Project(home.root / "project-without-checker")  # the same suites, and nobody serves them
        for each in (project, self.alone):
            each.expectations.mkdir(parents=True, exist_ok=True)
        with session(self.runtime) as spark:
            spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench").collect()
            for name in self.names:
                spark.sql(f"DROP TABLE IF EXISTS lake.{name} PURGE").collect()
                spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, carrier STRING, delay DOUBLE) USING iceberg").collect()
                for each in (project, self.alone):
                    (each.expectations / f"{name}.yaml").write_text(SUITE.format(table=name))

    def append(self, names: list[str]) -> None:
        with session(self.runtime) as spark:
            for name in names:
                spark.sql(
                    f"INSERT INTO lake.{name} SELECT id, if(id % 2 = 0, 'AA', 'UA'), 1D * (id % 300) FROM range({ROWS})"
                ).collect()

    def run(self, names: list[str], served: bool) -> dict[str, float]:
        """One run over what just landed; where its CPU went."""
        self.append(names)
        before = own_cpu(), tree(self.checker)[0], tree(self.connect)[0]
        began = time.monotonic()
        messages: list[str] = []
        project = self.project if served else self.alone
        results = check(self.runtime, self.url, project, names, emit=lambda level, text, fields: messages.append(text))
        wall = time.monotonic() - began
        assert [each["verdict"] for each in results] == ["pass"] * len(names), results
        assert served != any("process of its own" in each for each in messages), messages
        after = own_cpu(), tree(self.checker)[0], tree(self.connect)[0]
        asker, checker, spark = (round(b - a, 2) for a, b in zip(before, after, strict=True))
        found = {"asker": asker, "checker": checker, "spark": spark, "wall_s": round(wall, 2)}
        print(f"{len(names)} tables, {'served' if served else 'own process'}: {found}", file=sys.stderr, flush=True)
        return found


def middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=Path, required=True)
    arguments.add_argument("--project", type=Path, required=True)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--tables", type=int, default=6)
    arguments.add_argument("--idle-s", type=float, default=60)
    arguments.add_argument("--output", type=Path)
    given = arguments.parse_args()
    home, project = Home(given.home.resolve()), Project(given.project.resolve())
    bench = Bench(home, project, given.tables)
    one, all_ = bench.names[:1], bench.names
    bench.run(all_, served=True)  # what is first anywhere is nobody's cost
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine(),
                    "memory_gb": round(psutil.virtual_memory().total / 1e9), "load": os.getloadavg()[0]},
        "rounds": given.rounds,
    }  # fmt: skip
    runs: dict[str, list[dict[str, float]]] = {"served": [], "own_process": [], "served_all": []}
    for _ in range(given.rounds):
        runs["served"].append(bench.run(one, served=True))
        runs["own_process"].append(bench.run(one, served=False))
        runs["served_all"].append(bench.run(all_, served=True))
    found |= {name: {"median": middle(each), "runs": each} for name, each in runs.items()}
    ours = ("asker", "checker")
    few, many = found["served"]["median"], found["served_all"]["median"]
    more = len(all_) - 1
    found["one_more_table"] = {
        "cpu_s": round(sum(many[key] - few[key] for key in ours) / more, 3),
        "spark_cpu_s": round((many["spark"] - few["spark"]) / more, 3),
        "wall_s": round((many["wall_s"] - few["wall_s"]) / more, 3),
    }
    time.sleep(5)
    before = tree(bench.checker)[0]
    time.sleep(given.idle_s)
    after, rss = tree(bench.checker)
    found["idle"] = {"core": round((after - before) / given.idle_s, 4), "rss_mb": round(rss / 1e6)}
    text = json.dumps(found, indent=2)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
