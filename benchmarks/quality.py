"""What checks cost: jobs, rows read, CPU of executors and of whole processes, beside stock Great Expectations.

A PostgreSQL and a Spark Connect server of its own; everything in turns within one run, medians with the least and the
most. Prints one JSON object:

    python benchmarks/quality.py [--rows 5000000] [--rounds 5] [--only first_bad,pointer]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from bench_environment import BenchEnvironment, running
from quality_data import COLUMNS, ROWS, TWENTY, UNIQUE, demo_tables, expectation

os.environ |= {"GX_ANALYTICS_ENABLED": "false", "SPARK_CONNECT_MODE_ENABLED": "1", "TZ": "UTC"}  # as where checks run

from lakeward import jars
from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.spark import connect_server as server
from lakeward.connectors.spark.connect import session
from lakeward.platform import ports
from lakeward.platform.runtime import Project, Runtime
from lakeward.quality.engine.checking import check, first_bad
from lakeward.quality.publishing import verified
from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.file_statistics import file_statistics
from lakeward.quality.ranges.frames import rows as frame_of
from lakeward.quality.ranges.range import Read, decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.runs.engines import Engines
from lakeward.quality.runs.formats import IcebergTable
from lakeward.quality.runs.order import RunOrder
from lakeward.quality.runs.run import run
from lakeward.quality.suite.configured import configure
from lakeward.quality.suite.project import read_suite
from lakeward.registry.engine import migrate
from lakeward.spec.model.suite import Suite
from lakeward.stack import private

ROOT = Path(__file__).parents[1]
FIGURES = ("against_stock", "increments", "pointer", "failing", "demo", "first_bad", "changes")


class Meter:
    """What the server ran between two looks, by Spark's own account, and the CPU of both processes."""

    def __init__(self, ui: str, jvm: psutil.Process) -> None:
        self._api, self._jvm, self._me = f"http://{ui}/api/v1/applications", jvm, psutil.Process()
        self._app = self._get("")[0]["id"]

    def of(self, act: Callable[[], Any]) -> dict[str, float]:
        """Do it, and tell what it took; CPU in seconds."""
        stages, jobs = self._stages(), len(self._get(f"/{self._app}/jobs"))
        cpu, began = self._cpu(), time.perf_counter()
        act()
        wall, used = time.perf_counter() - began, self._cpu()
        new = [each for key, each in self._stages().items() if key not in stages]
        return {
            "jobs": len(self._get(f"/{self._app}/jobs")) - jobs,
            "rows_read": sum(each["inputRecords"] for each in new),
            "executor_cpu_s": round(sum(each["executorCpuTime"] for each in new) / 1e9, 3),
            "client_cpu_s": round(used[0] - cpu[0], 3),
            "server_cpu_s": round(used[1] - cpu[1], 3),
            "wall_s": round(wall, 3),
        }

    def _stages(self) -> dict[tuple[int, int], dict[str, Any]]:
        found = self._get(f"/{self._app}/stages?status=complete")
        return {(each["stageId"], each["attemptId"]): each for each in found}

    def _cpu(self) -> tuple[float, float]:
        mine, its = self._me.cpu_times(), self._jvm.cpu_times()
        return mine.user + mine.system, its.user + its.system

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._api}{path}") as answer:
            return json.load(answer)


class Bench:
    """One table of `rows` in 25 appends, checked."""

    def __init__(self, engines: Engines, meter: Meter, rows: int, rounds: int) -> None:
        self.engines, self.meter, self.rows, self.rounds = engines, meter, rows, rounds
        self.landed = 0
        self.table = self._table("big")

    def _table(self, name: str, form: int = 2) -> str:
        full = f"bench.{name}"
        more = "'write.merge.mode'='merge-on-read'"
        self.sql(
            f"CREATE TABLE lake.{full} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version'='{form}', {more})"
        )
        return full

    def sql(self, text: str) -> None:
        """Run a statement."""
        self.engines.session.sql(text).collect()

    def land(self, table: str, count: int, select: str = ROWS) -> None:
        """Append so many rows, in two files."""
        more = f"FROM range({self.landed}, {self.landed + count}, 1, 2)"
        self.sql(f"INSERT INTO lake.{table} {select} {more}")
        self.landed += count

    def fill(self, table: str, bad: int | None = None) -> None:
        """25 appends, of which one has a wrong row in it."""
        for number in range(25):
            wrong = ROWS.replace("concat('A', id % 9)", f"if(id = {self.landed}, '?', concat('A', id % 9))")
            self.land(table, self.rows // 25, wrong if number == bad else ROWS)

    def suite(self, table: str, expectations: Sequence[dict[str, Any]] = TWENTY) -> Suite:
        """A suite of these."""
        return Suite.model_validate({"table": table, "owner": "bench", "expectations": list(expectations)})

    def run(self, table: str, expectations: Sequence[dict[str, Any]] = TWENTY, scope: str | None = None) -> Any:
        """One whole run: registry, checks, results, branch."""
        order = RunOrder({table: self.suite(table, expectations)}, (table,), scope)
        (result,) = run(order, self.engines)
        return result

    def times(self, act: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> dict[str, Any]:
        """Median, least and most of each figure over the rounds."""
        found = []
        for _ in range(self.rounds):
            before()
            found.append(self.meter.of(act))
        return spread(found)

    # The figures ------------------------------------------------------------------------------------------------------

    def against_stock(self) -> dict[str, Any]:
        """20 passing expectations on a fifth of the table, ours and stock GX's in turns."""
        history = metadata.history(self.engines.lake, self.table)
        line = [each.id for each in history.ancestry(history.head)]
        read = Read(line[5], line[0])
        frame = frame_of(self.engines.session, self.table, read)
        checker, suite = self.engines.checker, self.suite(self.table)
        configured = configure(suite, None, {})
        plain = [each for each in configured if each.expectation.type != UNIQUE["type"]]
        stated = file_statistics(
            self.engines.lake.load_table(self.table), read, list(history.ancestry(history.head))[:5]
        )
        ways: dict[str, Callable[[], Any]] = {
            "ours": lambda: passed(checker.check(frame, configured, stated)),
            "ours without metadata": lambda: passed(checker.check(frame, configured)),
            "ours without uniqueness": lambda: passed(checker.check(frame, plain, stated)),
            "stock BOOLEAN_ONLY": lambda: checker._run(checker._batch(frame), configured, "BOOLEAN_ONLY"),
            "stock BASIC": lambda: checker.stock(frame, configured),
        }
        samples: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for each in ways.values():
            each()  # plans are compiled once
        for _ in range(self.rounds):
            for name, each in ways.items():
                samples[name].append(self.meter.of(each))
        return {"rows": self.rows // 5, **{name: spread(each) for name, each in samples.items()}}

    def increments(self) -> dict[str, Any]:
        """Whole runs over increments, beside a check of the whole table."""
        self.run(self.table)
        figures: dict[str, Any] = {}
        for count in (200_000, 20_000, self.rows // 100):
            figures[f"{count:,} rows"] = self.times(
                lambda: self.run(self.table), lambda n=count: self.land(self.table, n)
            )
        whole = self.times(lambda: self.run(self.table, scope="table"))
        part = figures[f"{self.rows // 100:,} rows"]
        figures["whole table"] = whole
        figures["share of 1 %"] = {
            key: round(part[key]["median"] / whole[key]["median"], 4) for key in ("executor_cpu_s", "server_cpu_s")
        }
        return figures

    def changes(self) -> dict[str, Any]:
        """A MERGE into 1 % of the rows of a table of format v3: checked by row lineage, beside the whole table."""
        table = self._table("traced", 3)
        self.landed = 0
        self.fill(table)
        self.run(table)
        merge = (
            f"MERGE INTO lake.{table} t USING (SELECT {{ids}} AS id FROM range({self.rows // 100})) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET t.code = 'A1'"
        )
        figures = {}
        for where, ids in (("everywhere", "id * 100 + id % 100"), ("in one place", "id")):
            change = merge.format(ids=ids)
            for how, scope in (("by row lineage", None), ("whole table", "table")):
                figures[f"{where}, {how}"] = self.times(
                    lambda s=scope: passed(self.run(table, scope=s).checks), lambda c=change: self.sql(c)
                )
        return figures

    def first_bad(self) -> dict[str, Any]:
        """The search for the first bad snapshot of 25, before and after a compaction; without row lineage and with."""
        return {"v2": self._first_bad(2), "v3": self._first_bad(3)}

    def _first_bad(self, form: int) -> dict[str, Any]:
        table = self._table(f"bad_{form}", form)
        self.fill(table, bad=17)
        configured = configure(self.suite(table), None, {})
        figures = {}
        for when in ("as landed", "after compaction"):
            history = metadata.history(self.engines.lake, table)
            line = list(history.ancestry(history.head))
            first = line[-1]
            found = decide(history, [Mark(first.id, first.sequence)])
            of = IcebergTable(table, self.engines.lake)
            checks = check(of, found, history, configured, RunOrder({}).now, self.engines)
            hit: list[int | None] = []
            search = partial(first_bad, of, found, history, configured, checks, self.engines)
            figures[when] = self.times(lambda search=search, hit=hit: hit.append(search()[0]))
            appends = found.appends
            assert all(each == appends[16].id for each in hit), "another snapshot"
            self.sql(
                f"CALL lake.system.rewrite_data_files(table => 'lake.{table}', options => map('rewrite-all', 'true'))"
            )
        return figures

    def pointer(self) -> dict[str, Any]:
        """Moving the branch, milliseconds, of a table of each format."""
        traced = self._table("pointed", 3)
        for _ in range(2):
            self.land(traced, 10)
        return {"v2": self._pointer(self.table), "v3": self._pointer(traced)}

    def _pointer(self, table: str) -> dict[str, float]:
        history = metadata.history(self.engines.lake, table)
        two = [each.id for each in history.ancestry(history.head)][:2]
        took = []
        for number in range(20):
            began = time.perf_counter()
            to = two[number % 2]
            verified.move(self.engines.session, self.engines.lake, table, lambda now, to=to: verified.Move(to, "bench"))
            took.append((time.perf_counter() - began) * 1000)
        return summary(took)

    def failing(self) -> dict[str, Any]:
        """What 100,000 failing rows bring to the client: rows and memory, beside 10 failing rows."""
        table = self._table("failing")
        figures = {}
        for count in (10, 100_000, 10, 100_000):
            wrong = ROWS.replace("concat('A', id % 9)", f"if(id - {self.landed} < {count}, '?', concat('A', id % 9))")
            self.land(table, 200_000, wrong)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result = self.run(table, [expectation("column_values_to_match_regex", column="code", regex="^A[0-9]$")])
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            rows = [len(each.sample) for each in result.checks]
            figures[f"{count:,} failing rows"] = {"rows_kept": sum(rows), "peak_memory_grew_kb": after - before}
        return figures

    def demo(self) -> dict[str, Any]:
        """The demo's suites on the flights of 2013: what decided each check."""
        found: list[str] = []
        for name, select in demo_tables(self.engines.session):
            suite, _ = read_suite(ROOT / "expectations" / f"{name}.yaml", Project(ROOT))
            assert suite is not None
            self.sql("CREATE NAMESPACE IF NOT EXISTS lake.nyc")
            select.writeTo(f"lake.{name}").using("iceberg").create()
            (result,) = run(RunOrder({name: suite}, (name,)), self.engines)
            found += [f"{name}: {each.expectation}: {each.by}, {each.state}" for each in result.checks]
        by_metadata = sum(": metadata, " in each for each in found)
        return {"checks": len(found), "by metadata": by_metadata, "each": found}


def passed(checks: Sequence[Any]) -> None:
    """Figures of checks that did not pass would be of something else."""
    assert {each.state.value for each in checks} == {"pass"}, [each for each in checks if each.state.value != "pass"]


def spread(found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Each figure over the rounds."""
    return {key: summary([each[key] for each in found]) for key in found[0]}


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }


@contextmanager
def connect_server(env: BenchEnvironment, ui: int) -> Iterator[tuple[Runtime, psutil.Process]]:
    """A warm server as the stack's, with Spark's UI to read its figures from."""
    port, token = ports.any_free(), f"token-{uuid4().hex}"
    temporary = env.folder / "temporary"
    temporary.mkdir()
    conf = addresses.spark_conf(env.lake) | server.server_conf(port, "2g", temporary)
    conf |= {"spark.ui.enabled": "true", "spark.ui.port": str(ui), "spark.ui.retainedStages": "100000"}
    conf |= {"spark.ui.retainedJobs": "100000", "spark.sql.warehouse.dir": str(env.folder / "spark")}
    home = jars.pyspark_jars().parent
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [str(home / "bin" / "spark-submit"), *words, "--class",
               "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]  # fmt: skip
    environ = {**os.environ, "SPARK_HOME": str(home), "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    with running(command, env.folder / "connect.log", signal.SIGTERM, environ):
        while not (ports.answers(port) and server.answers(f"localhost:{port}", token)):
            time.sleep(0.5)
        url = f"postgresql+psycopg2://{env.lake.user}@{env.lake.host}:{env.lake.port}/{env.lake.database}"
        passwords = Path(os.environ["PGPASSFILE"])
        jvm = next(each for each in psutil.Process().children(recursive=True) if "java" in each.name())
        runtime = Runtime(
            registry_url_file=private.write(env.folder / "registry.url", url), pgpass=passwords, lake=env.lake,
            connect=f"127.0.0.1:{port}", connect_token_file=private.write(env.folder / "token", token),
            checkpoints=str(env.folder / "checkpoints"), drivers=env.folder / "drivers",
            jars=jars.spark_folder(),
        )  # fmt: skip
        yield runtime, jvm


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default=",".join(FIGURES), help="some of these, with commas between")
    arguments = options.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, BenchEnvironment(Path(folder)) as env, ExitStack() as held:
        ui = ports.any_free()
        runtime, jvm = held.enter_context(connect_server(env, ui))
        migrate(runtime.registry_url_file.read_text(), runtime.pgpass)
        url = runtime.registry_url_file.read_text()
        engines = Engines(runtime, url, lambda own_id: held.enter_context(session(runtime, session_id=own_id)))
        engines.session.sql("CREATE NAMESPACE lake.bench").collect()
        bench = Bench(engines, Meter(f"127.0.0.1:{ui}", jvm), arguments.rows, arguments.rounds)
        if not set(arguments.only.split(",")) <= {"first_bad", "changes"}:
            bench.fill(bench.table)
        for name in arguments.only.split(","):
            figures[name] = getattr(bench, name)()
            print(f"{name}: {json.dumps(figures[name])}", file=sys.stderr, flush=True)
    machine = {"cores": os.cpu_count(), "platform": platform.platform(), "load": os.getloadavg()}
    print(json.dumps({**figures, "rows": arguments.rows, "rounds": arguments.rounds, "machine": machine}, indent=2))


if __name__ == "__main__":
    main()
