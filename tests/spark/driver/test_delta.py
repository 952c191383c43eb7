"""A stream into a Delta table, as the driver runs it, and what is known of it without a driver."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.cli.streams.audit import audit
from lakeward.connectors.delta import location, log
from lakeward.platform.errors import Blocked, SpecError
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.report import sources
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def _document(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = lab.spec(topic, sink={"delta": {"table": f"{lab.namespace}.t", "partition_by": ["s"]}})
    return {**document, "lineage": "rows", **more}


def _rows(lab: Any) -> list[tuple[int, str]]:
    found = lab.spark.sql(f"SELECT n, s FROM spark_catalog.{lab.namespace}.t").collect()
    return sorted((row["n"], row["s"]) for row in found)


@pytest.mark.parametrize(
    "steps",
    [
        ("before-return",),
        pytest.param(
            ("after-publish", "before-return"),
            marks=pytest.mark.campaign(held_by="test_a_stream_lands_in_delta_once_and_its_bad_rows_in_quarantine"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_a_stream_lands_in_delta_once_and_its_bad_rows_in_quarantine(lab: Any, steps: tuple[str, ...]) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1, "s": "a"}, "junk", {"n": 2, "s": "b"}])
    document = _document(lab, topic)

    class Died(RuntimeError):
        pass

    def die() -> None:
        raise Died

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    lab.run(document, 3)
    assert lab.done[-1].outcome.already
    lab.produce(topic, [{"n": 3, "s": "a"}])
    lab.run(document, 1)

    assert _rows(lab) == [(1, "a"), (2, "b"), (3, "a")]
    assert len(lab.rows("q")) == 1
    spec = StreamSpec.model_validate(document)
    found = audit(lab.runtime, spec)
    assert {name: found[name] for name in ("consumed", "landed", "quarantined", "missing", "duplicates")} == {
        "consumed": 4, "landed": 3, "quarantined": 1, "missing": 0, "duplicates": 0,
    }  # fmt: skip
    folder = location.folder_of(lab.runtime.lake, f"{lab.namespace}.t")
    lab.spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('a' = 'b')")
    asked = sources.ask(lab.runtime, spec, {}, datetime(2026, 1, 1, tzinfo=UTC))
    assert asked.position is not None
    assert (asked.position.seq, asked.position.snapshot, asked.table_answered) == (2, 2, True)
    assert [each.operation for each in asked.others] == ["set tblproperties"]
    assert asked.lag is not None

    # What is wrong with the stream or its table is said before a query starts.
    with pytest.raises(SpecError, match="gives other columns"):
        lab.start(_document(lab, topic, transform={"sql": "SELECT *, 1 AS more FROM source"}))
    renamed = _document(lab, topic, id=f"{document['id']}_2")
    lab.declared = lambda: {renamed["id"]: lab.wanted(renamed).checkpoint}
    with pytest.raises(Blocked, match="landed by stream") as raised:
        lab.start(renamed)
    assert "give the stream a new id and a new table" in raised.value.next
    restored = {"commitInfo": {"timestamp": 1, "operation": "RESTORE", "operationParameters": {"version": 0}}}
    head = log.head(folder)
    assert head is not None
    file = folder / log.LOG / f"{head.version + 1:020d}.json"
    file.write_text(json.dumps(restored, separators=(",", ":")))
    with pytest.raises(Blocked, match="restored to an older version"):
        lab.start(document)


@pytest.mark.campaign(
    held_by="tests/faults/test_exactly_once.py::test_every_sink_and_mode_killed_at_a_step_has_every_record_once"
)
def test_groups_are_upserted_as_they_change(lab: Any) -> None:
    topic = lab.topic()
    document = _document(
        lab,
        topic,
        lineage="none",
        transform={"sql": "SELECT s, count(*) AS c FROM source GROUP BY s"},
        sink={"delta": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["s"]}},
        spark={"spark.sql.shuffle.partitions": 2},
    )

    class Died(RuntimeError):
        pass

    def die() -> None:
        raise Died

    lab.produce(topic, [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}])
    with failpoints.on("after-publish", die):
        lab.fail(document)
    lab.started.clear()
    lab.run(document, 2)
    lab.produce(topic, [{"n": 3, "s": "b"}, {"n": 4, "s": "c"}])
    lab.run(document, 2)

    found = lab.spark.sql(f"SELECT s, c FROM spark_catalog.{lab.namespace}.t").collect()
    assert sorted((row["s"], row["c"]) for row in found) == [("a", 1), ("b", 2), ("c", 1)]
