"""One stream feeding another: an Iceberg table read as a stream, and every way in which its history can end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.engine import analysis
from lakeward.platform.errors import Blocked, DependencyDown, SpecError
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report.sources import measure
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def upstream(lab: Any, name: str = "up") -> str:
    """A table as a stream of Lakeward leaves it: staged commits, its own position columns."""
    table = f"lake.{lab.namespace}.{name}"
    lab.spark.sql(f"CREATE TABLE {table} (n INT, s STRING, _ingested_at TIMESTAMP)")
    return table


def add(lab: Any, table: str, *numbers: int) -> None:
    values = ", ".join(f"({n}, 'row {n}', TIMESTAMP '2026-03-01 10:00:00')" for n in numbers)
    lab.spark.sql(f"INSERT INTO {table} VALUES {values}")


def spec(lab: Any, **more: Any) -> dict[str, Any]:
    feed = {"table": f"{lab.namespace}.up", "max_files_per_trigger": 2, **more.pop("feed", {})}
    document = lab.spec("none", **more)
    document.pop("decode")
    return document | {"source": {"iceberg": feed}}


def landed(lab: Any) -> list[int]:
    return sorted(row["n"] for row in lab.rows())


def snapshots(lab: Any, table: str) -> list[int]:
    rows = lab.spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    return [row["snapshot_id"] for row in rows]


@pytest.mark.parametrize(
    "steps",
    [
        ("after-publish",),
        pytest.param(
            ("after-publish", "before-return"),
            marks=pytest.mark.campaign(held_by="test_rows_come_once_over_kills_compaction_and_a_lost_checkpoint"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_rows_come_once_over_kills_compaction_and_a_lost_checkpoint(lab: Any, steps: tuple[str, ...]) -> None:
    table = upstream(lab)
    for number in range(3):
        add(lab, table, number)
    document = spec(lab, rules={"not_one": "n <> 1"})

    def die() -> None:
        raise RuntimeError("died")

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    lab.run(document, 3)
    assert landed(lab) == [0, 2]
    [aside] = lab.rows("q", "CAST(raw AS STRING) AS raw")
    assert '"n":1' in aside["raw"]
    assert {row["_ingested_at"].year for row in lab.rows()} == {2026}, "when the record came into the lake stays"
    add(lab, table, 3)
    lab.spark.sql(f"CALL lake.system.rewrite_data_files('{lab.namespace}.up', options => map('rewrite-all', 'true'))")
    add(lab, table, 4)
    of_table = StreamSpec.model_validate(document)
    waiting, _ = measure(lab.runtime, of_table, lab.done[-1].outcome.batch.end)
    assert waiting is not None
    assert (waiting.records, waiting.oldest_s is not None) == (2, True)
    lab.run(document, 2)
    assert landed(lab) == [0, 2, 3, 4], "compaction adds nothing"
    behind, _ = measure(lab.runtime, of_table, lab.done[-1].outcome.batch.end)
    assert behind is not None
    assert (behind.records, behind.oldest_s) == (0, 0.0)


def test_columns_of_a_table_are_known_before_anything_runs(lab: Any) -> None:
    def found(sql: str, runtime: Any) -> list[str]:
        document = StreamSpec.model_validate(spec(lab, transform={"sql": sql}))
        return [each.message for each in analysis.findings(lab.spark, document, runtime=runtime)]

    assert "start the stream that lands in it" in found("SELECT * FROM source", lab.runtime)[0]
    assert "without a running stack" in found("SELECT * FROM source", None)[0]
    upstream(lab)
    assert found("SELECT n, _ingested_at FROM source", lab.runtime) == []
    assert "nope" in found("SELECT nope FROM source", lab.runtime)[0]


def run(lab: Any, document: dict[str, Any]) -> Any:
    """Start a stream and wait until its query has ended by itself."""
    running = lab.start(document)
    lab.until("the end", lambda: not running.active)
    assert running.completed
    return running


NOW = {"available_now": True, "schedule": "0 * * * *"}


@pytest.mark.campaign(held_by="test_rows_come_once_over_kills_compaction_and_a_lost_checkpoint")
def test_state_counts_the_very_files_of_a_batch_and_runs_go_on_behind_expired_commits(lab: Any) -> None:
    """The cap cuts commits in the middle, so a batch is read again by its files."""
    table = upstream(lab)
    lab.spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(3) */ CAST(id AS INT), 'a', "
                  "TIMESTAMP '2026-03-01 10:00:00' FROM range(9)")  # fmt: skip
    add(lab, table, 10)
    sql = "SELECT s, count(*) AS c FROM source GROUP BY s"
    sink = {"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["s"], "order_by": "c"}}
    document = spec(
        lab, transform={"sql": sql}, sink=sink, trigger=NOW, spark={"spark.sql.shuffle.partitions": 1},
        feed={"max_files_per_trigger": 1},
    )  # fmt: skip
    run(lab, document)
    assert {row["s"]: row["c"] for row in lab.rows()} == {"a": 9, "row 10": 1}
    consumed = [done.consumed for done in lab.done]
    assert (len(consumed), sum(consumed)) == (4, 10), "three files of one commit, then one of the next"

    add(lab, table, 11)
    lab.spark.sql(f"CALL lake.system.expire_snapshots(table => '{lab.namespace}.up', retain_last => 2, "
                  "older_than => TIMESTAMP '2100-01-01 00:00:00')")  # fmt: skip
    run(lab, document)
    assert {row["s"]: row["c"] for row in lab.rows()} == {"a": 9, "row 10": 1, "row 11": 1}
    run(lab, document)
    assert sum(done.consumed for done in lab.done) == 11, "a run with nothing to land lands nothing and ends well"


def refused(lab: Any, document: dict[str, Any]) -> Blocked:
    with pytest.raises(Blocked) as caught:
        lab.starter().start(lab.wanted(document))
    return caught.value


def test_what_a_stream_of_a_table_cannot_see_blocks_it_by_name(lab: Any) -> None:
    document = spec(lab, trigger=NOW)
    with pytest.raises(DependencyDown, match=r"Source source .* cannot be read: table .*up does not exist yet"):
        lab.starter().start(lab.wanted(document))
    table = upstream(lab)
    run(lab, document)
    assert landed(lab) == [], "a table without a commit is a table without rows"
    add(lab, table, 1)
    run(lab, document)
    [first] = snapshots(lab, table)

    add(lab, table, 2)
    lab.spark.sql(f"DELETE FROM {table} WHERE n = 2")
    error = refused(lab, document)
    assert error.reason == "source-rewritten"
    assert f"snapshot {snapshots(lab, table)[-1]} of" in error.why
    assert "is a delete: it removed 1 rows" in error.why
    skipping = spec(lab, trigger=NOW, feed={"skip": ["deletes", "overwrites"]})
    lab.spark.sql(f"UPDATE {table} SET s = 'new' WHERE n = 1")
    assert "is an overwrite" in refused(lab, spec(lab, trigger=NOW, feed={"skip": ["deletes"]})).why
    run(lab, skipping)
    assert landed(lab) == [1, 2], "what was taken out stays, what an update put in does not come"

    lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{lab.namespace}.up', {first})")
    error = refused(lab, skipping)
    assert (error.reason, "rolled back" in error.what) == ("source-rolled-back", True)
    add(lab, table, 5, 6)
    add(lab, table, 7)
    lab.spark.sql(f"CALL lake.system.expire_snapshots(table => '{lab.namespace}.up', retain_last => 1, "
                  "older_than => TIMESTAMP '2100-01-01 00:00:00')")  # fmt: skip
    [left] = snapshots(lab, table)
    error = refused(lab, skipping)
    assert error.reason == "source-expired"
    assert f"every commit from there up to snapshot {left}" in error.why
    assert "the table had 3 rows then" in error.why
    assert f"starting_snapshot: {left}" in error.next

    fresh = spec(lab, trigger=NOW, id=f"f_{lab.namespace}", sink={"iceberg": {"table": f"{lab.namespace}.t2"}})
    with pytest.raises(SpecError, match=r"3 rows committed before that would never be read") as caught:
        lab.starter().start(lab.wanted(fresh))
    assert f"starting_snapshot: {left}" in caught.value.next
    fresh["source"]["iceberg"]["starting_snapshot"] = left
    run(lab, fresh)
    assert [row["n"] for row in lab.rows("t2")] == [7]

    lab.spark.sql(f"CREATE OR REPLACE TABLE {table} (n INT, s STRING, _ingested_at TIMESTAMP)")
    assert refused(lab, fresh).reason == "source-replaced"
    lab.spark.sql(f"DROP TABLE {table}")
    assert refused(lab, fresh).reason == "source-missing"
    upstream(lab)
    error = refused(lab, fresh)
    assert (error.reason, error.what.startswith(f"Table {lab.namespace}.up of stream")) == ("source-replaced", True)


def test_a_stream_begins_where_its_spec_says(lab: Any) -> None:
    table = upstream(lab)
    add(lab, table, 1)
    add(lab, table, 2)
    latest = spec(lab, feed={"starting": "latest"})
    running = lab.start(latest)
    add(lab, table, 3)
    lab.until("the new row", lambda: sum(done.outcome.landed for done in lab.done) == 1)
    assert running.stop(60)
    assert landed(lab) == [3]
    at = lab.spark.sql(f"SELECT committed_at FROM {table}.snapshots ORDER BY committed_at").collect()[1][0]
    when = at.astimezone().isoformat()
    late = spec(
        lab, trigger=NOW, id=f"l_{lab.namespace}", sink={"iceberg": {"table": f"{lab.namespace}.t2"}},
        feed={"starting_timestamp": when},
    )  # fmt: skip
    run(lab, late)
    assert sorted(row["n"] for row in lab.rows("t2")) == [2, 3]
    stands = json.loads(
        next(
            row["value"]
            for row in lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t2").collect()
            if row["key"].startswith("lakeward.stream.")
        )
    )
    assert stands["topic_ids"].keys() == {f"table {lab.namespace}.up"}
