"""What `make bench` runs, and each figure of it: where it is in the JSON, its goal, its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Goal:
    """A figure is to be at least (`>=`) or at most (`<=`) `value`."""

    sign: Literal[">=", "<="]
    value: float

    def met(self, measured: float) -> bool:
        return measured >= self.value if self.sign == ">=" else measured <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.sign == '>=' else '≤'} {self.value:g}"


@dataclass(frozen=True)
class Figure:
    """One number of a script's JSON.

    Attributes:
        title, unit: as the page shows them; the unit `ratio` has no dimension.
        at: the keys that lead to it: a number, or an object with `median` and its spread.
        goal: None for a figure that is only reported.
        means: what a reader learns from it, in a sentence or two.
        scale: what the number is multiplied with to be in `unit`.
    """

    title: str
    at: tuple[str, ...]
    unit: str
    goal: Goal | None
    means: str
    scale: float = 1.0

    def of(self, document: Mapping[str, Any]) -> Measured | None:
        """This figure in what the script printed; None if it is not there."""
        value: Any = document
        for key in self.at:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        if isinstance(value, int | float):
            return Measured(value * self.scale, None, None)
        if not isinstance(value, Mapping) or "median" not in value:
            return None
        low, high = _spread(value)
        return Measured(value["median"] * self.scale, _times(low, self.scale), _times(high, self.scale))


@dataclass(frozen=True)
class Measured:
    """A median, and its quartiles (or least and most of few rounds) where the script reports them."""

    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Benchmark:
    """One run of a script.

    Attributes:
        name: its key in the history.
        section: of the page.
        command: the script below `benchmarks/` and its arguments.
        quick: the arguments of `make bench-quick`; None: it is not part of it.
        parts: of a stack that it needs (`stack up --only`), which is started for it.
    """

    name: str
    section: str
    command: tuple[str, ...]
    figures: tuple[Figure, ...]
    quick: tuple[str, ...] | None = None
    parts: str = ""


RATIO = ("rows_per_cpu_second_ratio",)
BY_HAND = (
    "Rows for each CPU-second of the declared stream, divided by those of the same stream written by hand with the "
    "same decoding ({how}). Above 1 the declared stream is cheaper."
)


def _engine(rows: int, mode: str, goal: float | None, *, decode: str = "same", quick: bool = False) -> Benchmark:
    how = "`writeStream.toTable`" if mode == "append" else "`foreachBatch` with a window and a `MERGE`"
    means = BY_HAND.format(how=how)
    if decode == "plain":
        means = means.replace(
            "with the same decoding", "with `from_json` alone, which makes nulls of what does not fit"
        )
    title = f"{mode}, {rows:,} rows a batch" + (", against `from_json` alone" if decode == "plain" else "")
    command = ("engine.py", "--mode", mode, "--decode", decode, "--per-batch", str(rows))
    # At least ten batches a turn; many small batches would only repeat the fixed cost.
    command += ("--records", str(max(rows * 10, 20_000)))
    return Benchmark(
        name=f"{mode}-{rows}-{decode}",
        section="A stream against the same stream written by hand",
        command=command,
        quick=("--pairs", "3") if quick else None,
        figures=(Figure(title, RATIO, "ratio", Goal(">=", goal) if goal else None, means),),
    )


BENCHMARKS: tuple[Benchmark, ...] = (
    _engine(2_000, "append", 0.75, quick=True),
    _engine(20_000, "append", 1.0),
    _engine(100_000, "append", 1.05),
    _engine(20_000, "upsert", 0.95),
    _engine(2_000, "append", None, decode="plain"),
    _engine(20_000, "append", None, decode="plain"),
    Benchmark(
        name="planted",
        section="Whether this suite would notice",
        command=("engine.py", "--against", "planted", "--per-batch", "2000", "--records", "20000"),
        quick=("--pairs", "5"),
        figures=(
            Figure(
                "the declared stream against itself with 15 % more work in each batch",
                RATIO,
                "ratio",
                Goal(">=", 1.08),
                "A planted slowdown of 15 % has to show as about 1.15, with a lower quartile above 1. If it does not, "
                "the machine is too noisy for the other figures of this page.",
            ),
        ),
    ),
    Benchmark(
        name="native-limit",
        section="A stream against the limit of the machine",
        command=("native_limit.py",),
        quick=("--records", "40000", "--pairs", "3"),
        figures=(
            Figure(
                "against DuckDB and PyIceberg",
                ("rows_per_cpu_second_ratio", "duckdb"),
                "ratio",
                Goal(">=", 0.40),
                "Rows for each CPU-second of the declared stream, divided by those of a loop in one process: poll, "
                "decode by DuckDB's `from_json`, append by PyIceberg. The loop checks nothing, has no checkpoint and "
                "lands twice what it reads twice: it shows what Spark's JVM and exactness cost together.",
            ),
            Figure(
                "against PyArrow and PyIceberg",
                ("rows_per_cpu_second_ratio", "pyarrow"),
                "ratio",
                None,
                "The same loop with PyArrow's reader of JSON lines.",
            ),
        ),
    ),
    Benchmark(
        name="latency",
        section="How soon a reader has a record",
        command=("latency.py",),
        figures=(
            Figure(
                "real-time mode, inside an interval: p99",
                ("hop", "ms_inside", "p99"),
                "ms",
                Goal("<=", 50),
                "From the send of a record until a consumer of the second topic has the message, 200 records a second.",
            ),
            Figure(
                "micro-batches every 100 ms, Kafka to Kafka: p99",
                ("alerts", "ms", "p99"),
                "ms",
                Goal("<=", 1000),
                "The same through ordinary batches. A batch is bound by CPU: other work on the cores moves it most.",
            ),
            Figure(
                "Kafka to Iceberg every 2 s: p99 by what trigger and batch allow",
                ("table", "p99_over_allowed"),
                "ratio",
                Goal("<=", 1.0),
                "The allowed age is 1.5 × trigger + p95 of a batch.",
            ),
        ),
    ),
    Benchmark(
        name="density",
        section="Many small streams in one driver",
        command=("shared_driver.py", "--streams", "50", "--rate", "1", "--rounds", "1"),
        figures=(
            Figure(
                "memory of a driver with 50 streams, 1 record a second each",
                ("pss_mb", "total"),
                "GB",
                Goal("<=", 3.0),
                "PSS of Python and the JVM: shared pages are counted once.",
                1 / 1024,
            ),
        ),
    ),
    Benchmark(
        name="density-idle",
        section="Many small streams in one driver",
        command=("shared_driver.py", "--streams", "50", "--rounds", "1"),
        figures=(
            Figure(
                "cores of an idle stream, one of 50",
                ("cores_a_stream", "median"),
                "cores",
                Goal("<=", 0.01),
                "CPU of the driver's processes while no record comes, divided by its streams (`every: 10s`).",
            ),
        ),
    ),
    Benchmark(
        name="quality",
        section="Checks against stock Great Expectations",
        command=("quality.py", "--rows", "5000000", "--rounds", "3", "--only", "against_stock,increments,pointer"),
        quick=("--rows", "1000000", "--only", "against_stock"),
        figures=(
            Figure(
                "20 expectations, server",
                ("against_stock", "ours", "server_cpu_s"),
                "CPU-s",
                None,
                "CPU of the Spark Connect server for 20 passing expectations over a fifth of the table.",
            ),
            Figure(
                "the same by stock Great Expectations, `BASIC`",
                ("against_stock", "stock BASIC", "server_cpu_s"),
                "CPU-s",
                None,
                "Stock, with the result format that reports what Lakeward reports.",
            ),
            Figure(
                "the same by stock, `BOOLEAN_ONLY`",
                ("against_stock", "stock BOOLEAN_ONLY", "server_cpu_s"),
                "CPU-s",
                None,
                "Stock, with a verdict and no figures.",
            ),
            Figure(
                "a check of 1 % of new rows, of a check of the table",
                ("increments", "share of 1 %", "executor_cpu_s"),
                "ratio",
                Goal("<=", 0.03),
                "CPU of executors. A check reads what was added since the last one.",
            ),
            Figure("moving `verified`", ("pointer", "v2"), "ms", Goal("<=", 50), "One conditional commit."),
        ),
    ),
    Benchmark(
        name="maintained",
        section="Maintenance",
        command=("maintained.py", "--megabytes", "150"),
        quick=("--only", "tiny,many"),
        parts="postgres,connect",
        figures=(
            Figure(
                "19 small due tables, of one `spark-submit` for one table",
                ("many", "ratio"),
                "ratio",
                Goal("<=", 2.0),
                "CPU of server and client for all of them, divided by that of one plain spark-submit.",
            ),
            Figure(
                "full scan after a compaction, of one set of full files",
                ("scan", "after_over_ideal_cpu"),
                "ratio",
                Goal("<=", 1.2),
                "Above 1 the compacted table costs its readers more than a table written at once.",
            ),
            Figure(
                "full scan before a compaction, of after",
                ("scan", "before_over_after_cpu"),
                "ratio",
                None,
                "What readers pay for small files of 1 MB.",
            ),
            Figure(
                "a reader's planning after a compaction, of one manifest",
                ("scan", "plan_after_over_ideal"),
                "ratio",
                Goal("<=", 2.0),
                "PyIceberg's `plan_files`.",
            ),
        ),
    ),
    Benchmark(
        name="tables",
        section="Maintenance",
        command=("tables.py",),
        parts="postgres,connect",
        figures=(
            Figure(
                "due-check of an unchanged table",
                ("due_check", "unchanged_ms"),
                "ms",
                Goal("<=", 50),
                "Metadata alone; no data file is opened.",
            ),
            Figure(
                "a rewrite of 4 MB files",
                ("compaction", "mb_per_cpu_second"),
                "MB/CPU-s",
                Goal(">=", 8),
                "All steps of `maintain`, verification included.",
            ),
        ),
    ),
    Benchmark(
        name="commit-cost",
        section="Maintenance",
        command=("commit_cost.py", "--commits", "400"),
        parts="postgres,connect",
        figures=(
            Figure(
                "the last commits of a stream, of the first, under maintenance",
                ("with_maintenance", "late_over_early"),
                "ratio",
                Goal("<=", 1.5),
                "A table's history must not make its commits slower.",
            ),
        ),
    ),
    Benchmark(
        name="publication-rest",
        section="Catalogs",
        command=("publication_rest.py",),
        quick=("--batches", "10"),
        figures=(
            Figure(
                "publishing a batch through a REST catalog, of the embedded catalog",
                ("publication_ratio",),
                "ratio",
                Goal("<=", 2),
                "Time from the staged snapshot to the landed batch, of pairs in one Spark application; the files of "
                "both are on one object store.",
            ),
        ),
    ),
    Benchmark(
        name="observe-rest",
        section="Catalogs",
        command=("observe_rest.py",),
        quick=("--tables", "50", "--rounds", "1"),
        figures=(
            Figure(
                "observing 1,000 tables of others over a REST catalog",
                ("first", "seconds"),
                "s",
                Goal("<=", 60),
                "Health and plan of each table, by the process of the observation, from a server on the same machine.",
            ),
            Figure(
                "the same, when nothing has changed",
                ("nothing_changed", "seconds"),
                "s",
                Goal("<=", 20),
                "The server is asked for each table: such a catalog does not say that nothing changed.",
            ),
        ),
    ),
    Benchmark(
        name="reconcile",
        section="Supervision and Airflow",
        command=("reconcile.py",),
        figures=(
            Figure(
                "a pass over 1,000 streams in which nothing changes",
                ("nothing_changes", "cpu_s"),
                "CPU-s",
                None,
                "The process of the pass, with a real PostgreSQL.",
            ),
            Figure(
                "a pass in which 100 drivers have died",
                ("100_drivers_died", "cpu_s"),
                "CPU-s",
                None,
                "Each is examined, recorded and launched; starting Spark is not counted.",
            ),
        ),
    ),
    Benchmark(
        name="page",
        section="Supervision and Airflow",
        command=("page_api.py",),
        quick=("--streams", "100", "--requests", "5"),
        figures=(
            Figure(
                "the page's API with 1,000 streams and 20 clients: p95",
                ("p95_ms",),
                "ms",
                Goal("<=", 150),
                "Each client asks for all streams twice a second, over HTTP; a page asks every five seconds.",
            ),
        ),
    ),
    Benchmark(
        name="parse",
        section="Supervision and Airflow",
        command=("parse.py",),
        quick=("--streams", "50", "200"),
        figures=(
            Figure(
                "parsing one more stream",
                ("parse_ms_each",),
                "ms",
                Goal("<=", 3),
                "CPU of reading the spec and building its Dag, files unchanged, on the way from 100 streams to 500.",
            ),
        ),
    ),
)


def _spread(value: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Quartiles, or least and most, under the names that the scripts give them."""
    if isinstance(quartiles := value.get("quartiles"), Sequence) and len(quartiles) == 2:
        return quartiles[0], quartiles[1]
    for low, high in (("lower_quartile", "upper_quartile"), ("low", "high"), ("least", "most")):
        if low in value and high in value:
            return value[low], value[high]
    return None, None


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
