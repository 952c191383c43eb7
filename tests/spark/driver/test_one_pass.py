"""One pass: a clean batch is one Spark job; whatever is not proven clean is counted by queries, and lands once."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import lost_shuffle
import pytest
from lost_shuffle import LANDED, RECORDS

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.connectors.commit_protocol.position import Totals
from lakeward.connectors.postgres import connection
from lakeward.engine import one_pass
from lakeward.engine.flow import chain
from lakeward.engine.gate import wait_until
from lakeward.engine.one_pass import Doubt, Observed, Unproven
from lakeward.platform.runtime import Database
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_a_clean_batch_is_one_job_and_any_other_is_counted_by_queries(lab: Any) -> None:
    from confluent_kafka import Producer

    topic = lab.topic()
    document = lab.spec(
        topic,
        transform={"sql": "SELECT * FROM source WHERE n % 5 <> 0"},
        rules={"small": "n < 900"},
    )
    running = lab.start(document)
    tracker, group = lab.spark.sparkContext.statusTracker(), str(running.query.runId)
    sent = 0

    def batch(*values: Any, transaction: bool = False) -> tuple[Any, int]:
        """Send the records of one batch; the batch, and the number of jobs that it ran."""
        nonlocal sent
        sent += len(values)
        before = set(tracker.getJobIdsForGroup(group))
        if transaction:
            producer = Producer({"bootstrap.servers": lab.kafka.bootstrap, "transactional.id": topic})
            producer.init_transactions(60)
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, json.dumps(value), partition=0)
            producer.commit_transaction(60)
        else:
            lab.produce(topic, values)
        lab.until("the batch", lambda: sum(done.consumed for done in lab.done) == sent)
        return lab.done[-1], len(set(tracker.getJobIdsForGroup(group)) - before)

    _, jobs = batch({"n": 1}, {"n": 5})
    assert jobs > 1, "the first batch of a start is counted by queries"
    assert running.function.one_pass.due
    done, jobs = batch({"n": 2}, {"n": 10}, {"n": 3})
    assert jobs == 1
    assert (done.consumed, done.outcome.landed, done.outcome.filtered, done.quarantined) == (3, 2, 1, 0)

    compiled = lab.spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    done, jobs = batch({"n": 4}, {"n": 15}, transaction=True)
    assert compiled.getCount() == before, "nothing in the code of a batch is of that batch alone"
    spans = [json.loads(each["source"])[topic]["0"] for each in (done.outcome.start, done.outcome.end)]
    assert spans[1] - spans[0] == 3, "the marker of the transaction has an offset, and is no record"
    assert (jobs, done.consumed, done.outcome.landed, done.outcome.filtered) == (1, 2, 1, 1)

    assert running.function.one_pass.due
    done, jobs = batch({"n": 6}, "junk", {"n": 901}, {"n": 20})
    assert jobs > 1
    assert (done.consumed, done.outcome.landed, done.outcome.filtered, done.quarantined) == (4, 1, 1, 2)
    assert not running.function.one_pass.due, "the next batches are not tried"
    done, jobs = batch({"n": 7})
    assert jobs > 1
    assert running.stop(60)

    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3, 4, 6, 7]
    times = {row["n"]: row["_ingested_at"] for row in lab.rows()}
    assert times[1] < times[2] == times[3] < times[4] < times[6] < times[7], "the time of the batch"
    assert sorted(row["reason"] for row in lab.rows("q")) == ["decode", "small"]
    rows = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t").collect()
    text = next(row["value"] for row in rows if row["key"] == f"lakeward.stream.{document['id']}.position")
    assert json.loads(text)["totals"] == {"consumed": 12, "landed": 6, "quarantined": 2, "filtered": 4, "skipped": 0}


@pytest.mark.campaign(held_by="test_a_clean_batch_is_one_job_and_any_other_is_counted_by_queries")
@pytest.mark.parametrize("sink", ["delta", "postgres"])
def test_other_sinks_that_stage_an_append_land_a_clean_batch_in_one_pass(
    lab: Any, postgres: Any, database: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    lab.runtime = lab.runtime.model_copy(update={"postgres": {"there": where}, "pgpass": postgres.pgpass})
    target = {"table": f"{lab.namespace}.t"} if sink == "delta" else {"connection": "there", "table": "t"}
    document = lab.spec(lab.topic(), sink={sink: target}, lineage="rows", rules={"small": "n < 900"})
    document["transform"] = {"sql": "SELECT * FROM source WHERE n % 5 <> 0"}
    (topic,) = document["source"]["kafka"]["topics"]
    proven: list[Counted] = []
    after = Observed.after

    def noted(observed: Observed, landed: int) -> Counted:
        proven.append(after(observed, landed))
        return proven[-1]

    monkeypatch.setattr(Observed, "after", noted)
    lab.produce(topic, [{"n": 1}, {"n": 5}])  # an empty topic may begin with a batch without records
    running = lab.start(document)
    lab.until("a batch", lambda: sum(done.consumed for done in lab.done) == 2)
    assert proven == [], "the first batch of a start is counted by queries"

    def batch(*values: Any) -> Any:
        before = sum(done.consumed for done in lab.done)
        lab.produce(topic, values)
        lab.until("the batch", lambda: sum(done.consumed for done in lab.done) == before + len(values))
        return lab.done[-1]

    done = batch({"n": 2}, {"n": 10}, {"n": 3})
    assert proven == [Counted(3)]
    assert (done.consumed, done.outcome.landed, done.outcome.filtered) == (3, 2, 1)
    done = batch({"n": 4}, "junk", {"n": 901}, {"n": 15})
    assert len(proven) == 1, "records are invalid: what was staged is never published"
    assert (done.consumed, done.outcome.landed, done.outcome.filtered, done.quarantined) == (4, 1, 1, 2)
    assert running.stop(60)

    if sink == "delta":
        landed = sorted(row["n"] for row in lab.spark.sql(f"SELECT n FROM spark_catalog.{lab.namespace}.t").collect())
    else:
        with closing(connection.connect(where, postgres.pgpass, "test")) as link, link.cursor() as cursor:
            cursor.execute("SELECT n FROM t ORDER BY n")
            landed = [n for (n,) in cursor.fetchall()]
    assert landed == [1, 2, 3, 4]
    assert sorted(row["reason"] for row in lab.rows("q")) == ["decode", "small"]


@pytest.mark.parametrize(
    ("sql", "filters"),
    [
        ("SELECT * FROM source", False),
        ("SELECT n + 1 AS n FROM (SELECT * FROM source) AS s", False),
        ("SELECT * FROM source WHERE n > 1", True),
        ("SELECT * FROM source UNION ALL SELECT * FROM source", None),
        ("SELECT explode(array(n, n)) AS n FROM source", None),
        ("SELECT DISTINCT n FROM source", None),
        ("SELECT a.n FROM source AS a LEFT JOIN source AS b ON a.n = b.n", None),
        ("SELECT * FROM source WHERE n IN (SELECT n FROM source)", None),
        ("SELECT n, (SELECT max(n) FROM source) AS m FROM source", None),
        ("SELECT /*+ REPARTITION(2) */ * FROM source", None),
    ],
)
def test_only_projections_and_filters_are_one_row_for_one_record(lab: Any, sql: str, filters: bool | None) -> None:
    lab.spark.range(3).withColumnRenamed("id", "n").createOrReplaceTempView("source")
    steps = chain(lab.spark.sql(sql))
    assert (steps is None) == (filters is None)
    assert steps is None or ("Filter" in steps) == filters


@pytest.fixture
def document(lab: Any) -> dict[str, Any]:
    """A stream that filters a quarter of its records."""
    made: dict[str, Any] = lab.spec(
        "t", decode={"json": "n INT"}, transform={"sql": "SELECT * FROM source WHERE n % 4 <> 0"}
    )
    return made


@pytest.fixture
def observed(lab: Any, document: dict[str, Any]) -> Observed:
    """Forty records in four partitions, a quarter of them filtered."""
    return lost_shuffle.observed(lab.spark, document)


def test_the_figures_of_a_plain_write_prove_it(observed: Observed) -> None:
    observed.before()
    observed.good.write.format("noop").mode("overwrite").save()
    assert observed.after(LANDED) == Counted(RECORDS)
    with pytest.raises(Unproven) as again:
        observed.before()
    assert again.value.doubt is Doubt.AGAIN


@pytest.mark.campaign(held_by="test_figures_that_are_spoiled_are_found")
def test_a_stage_that_runs_again_because_its_output_was_lost_is_found(document: dict[str, Any], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, lost_shuffle.__file__, json.dumps(document), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "doubt: TWICE" in run.stdout, run.stderr[-2000:]
    assert "core time of all attempts: True" in run.stdout


def test_figures_that_are_spoiled_are_found(lab: Any, observed: Observed) -> None:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    row = "SELECT CAST({} AS BIGINT) AS consumed, 0L AS bad, array({}) AS partitions"
    for consumed, partitions, landed, doubt in (
        (RECORDS, "0, 1", RECORDS, None),
        (RECORDS, "0, 0", RECORDS, Doubt.TWICE),
        (RECORDS + 1, "0, 1", RECORDS, Doubt.DISAGREE),
        (RECORDS - 1, "0, 1", RECORDS, Doubt.DISAGREE),
        (RECORDS + 1, "0, 1", RECORDS + 1, Doubt.DISAGREE),  # more than the offsets hold
    ):
        spoiled: Any = Observation()
        lab.spark.range(1).observe(spoiled, F.count(F.lit(1)))
        spoiled._jo.setMetricsAndNotify(lab.spark.sql(row.format(consumed, partitions))._jdf.head())
        assert _doubt(Observed(observed.good, RECORDS, spoiled, None), landed) == doubt


def _doubt(seen: Observed, landed: int) -> Doubt | None:
    try:
        seen.after(landed)
    except Unproven as unproven:
        return unproven.doubt
    return None


def test_figures_that_never_arrive_end_the_wait(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_pass, "_ARRIVES_S", 0.3)
    observed.before()
    with pytest.raises(Unproven) as found:
        observed.after(0)
    assert found.value.doubt is Doubt.MISSING


def test_a_batch_whose_figures_are_not_proven_lands_once_with_exact_counts(lab: Any) -> None:
    """The failpoint is after the rows were staged: what is staged is never published."""
    topic = lab.topic()
    document = lab.spec(topic, sink={"iceberg": {"table": f"{lab.namespace}.t", "partition_by": ["n"]}})
    lab.produce(topic, [{"n": 1}])  # an empty topic may begin with a batch without records
    running = lab.start(document)
    lab.until("a batch", lambda: sum(done.consumed for done in lab.done) == 1)
    lab.land(topic, {"n": 2})
    assert running.function.one_pass.due, "clean, and the write shuffles its rows"

    def spoil() -> None:
        raise Unproven(Doubt.DISAGREE)

    with failpoints.on("before-figures", spoil):
        lab.produce(topic, [{"n": 3}, {"n": 4}])
        lab.until("the third batch", lambda: sum(done.consumed for done in lab.done) == 4)
    assert not running.function.one_pass.due
    assert running.stop(60)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3, 4]
    landed = [(done.outcome.already, done.outcome.landed) for done in lab.done if done.consumed]
    assert landed == [(False, 1), (False, 1), (False, 2)]
    snapshots = lab.spark.sql(f"SELECT count(*) FROM lake.{lab.namespace}.t.snapshots").first()[0]
    assert snapshots == 4, "one for each batch, and one that was staged and never published"


@pytest.mark.parametrize(
    "step",
    [
        "before-figures",
        *(
            pytest.param(
                each, marks=pytest.mark.campaign(held_by="test_a_batch_in_one_pass_that_dies_at_a_step_lands_once")
            )
            for each in ("after-stage", "before-publish", "after-publish")
        ),
    ],
)
def test_a_batch_in_one_pass_that_dies_at_a_step_lands_once(lab: Any, step: str) -> None:
    class Died(RuntimeError):
        pass

    def die() -> None:
        raise Died

    topic = lab.topic()
    document = lab.spec(topic, transform={"sql": "SELECT * FROM source WHERE n % 5 <> 0"})
    running = lab.start(document)
    lab.produce(topic, [{"n": 1}, {"n": 5}])
    lab.until("the first batch", lambda: sum(done.consumed for done in lab.done) == 2)
    assert running.function.one_pass.due
    with failpoints.on(step, die):
        lab.produce(topic, [{"n": 2}, {"n": 10}, {"n": 3}])
        wait_until(lambda: not running.active, 600)
    assert isinstance(running.failure()[0], Died)
    lab.started.clear()
    lab.run(document, 3)

    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]
    assert lab.done[-1].outcome.position.totals == Totals(consumed=5, landed=3, filtered=2)
