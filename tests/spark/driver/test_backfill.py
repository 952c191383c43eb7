"""A range of the source, landed once beside the running stream."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import of_properties
from lakeward.connectors.iceberg.audit import audit
from lakeward.connectors.kafka import position
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill.backfill import Report, backfill
from lakeward.platform.errors import Refused
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Died(RuntimeError):
    pass


def _at(nth: int) -> Callable[[], None]:
    """Dies where this thread passes for the n-th time; the stream beside it has threads of its own."""
    passed = []

    def hook() -> None:
        if threading.current_thread() is threading.main_thread():
            passed.append(1)
            if len(passed) == nth:
                raise Died

    return hook


def _run(lab: Any, document: dict[str, Any], topic: str, start: int, end: int, into: str | None, **more: Any) -> Report:
    first, last = (position.render({topic: {0: each}}) for each in (start, end))
    wanted = Assignment(document["id"], 1, document, "")
    return backfill(lab.spark, wanted, lab.runtime, first, last, into=into, **more)


def _backfills(catalog: Any, table: str) -> list[str]:
    return [name for name in of_properties(catalog.load_table(table).properties, table) if "@" in name]


@pytest.mark.parametrize(
    "steps",
    [
        (("after-stage", 2), ("after-publish", 1)),
        pytest.param(
            (("after-quarantine", 1), ("after-stage", 2), ("after-publish", 1)),
            marks=pytest.mark.campaign(held_by="test_a_range_lands_in_a_new_table_once_whatever_dies"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_a_range_lands_in_a_new_table_once_whatever_dies(
    lab: Any, catalog: Any, steps: tuple[tuple[str, int], ...]
) -> None:
    topic, into = lab.topic(), f"{lab.namespace}.history"
    lab.produce(topic, [{"n": each} if each != 4 else "junk" for each in range(12)])
    document = lab.spec(topic, source={"kafka": {"topics": [topic], "max_offsets_per_trigger": 4}}, lineage="rows")
    lab.start(document)
    lab.until("the live rows", lambda: sum(done.consumed for done in lab.done) == 12)

    dry = _run(lab, document, topic, 1, 11, into, dry_run=True)
    assert (dry.position, dry.begun, dry.batches) == (f"{document['id']}@backfill-1", None, 0)
    for step, nth in steps:
        with failpoints.on(step, _at(nth)), pytest.raises(Died):
            _run(lab, document, topic, 1, 11, into)
    lab.produce(topic, [{"n": 12}])
    done = _run(lab, document, topic, 1, 11, into)
    assert done.done and done.begun is not None

    assert sorted(row["n"] for row in lab.rows("history")) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    table = catalog.load_table(into)
    at = of_properties(table.properties, into)[dry.position]
    assert at.totals.model_dump(exclude={"skipped"}) == {
        "consumed": 10, "landed": 9, "quarantined": 1, "filtered": 0,
    }  # fmt: skip
    found = audit(table, f"{dry.position} into {into}", at, catalog.load_table(f"{lab.namespace}.q"))
    assert found.clean and (found.consumed, found.landed, found.quarantined) == (10, 9, 1)

    again = _run(lab, document, topic, 1, 13, into)
    assert (again.batches, again.landed) == (1, 2), "a longer range goes on where it came to"
    assert _run(lab, document, topic, 1, 13, into).batches == 0
    with pytest.raises(Refused, match="it holds other rows"):
        _run(lab, document, topic, 0, 13, into)
    lab.until("the stream's own row", lambda: sum(each.consumed for each in lab.done) == 13)


@pytest.mark.campaign(held_by="test_a_range_lands_in_a_new_table_once_whatever_dies")
def test_an_upsert_repairs_its_own_table_and_nothing_newer_is_replaced(lab: Any, catalog: Any) -> None:
    topic, table = lab.topic(), f"lake.{lab.namespace}.t"
    lab.produce(
        topic,
        [
            {"k": 1, "v": 1, "s": "old"}, {"k": 2, "v": 1, "s": "lost"}, {"k": 3, "v": 5, "s": "tie, first"},
            {"k": 1, "v": 9, "s": "new"}, {"k": 3, "v": 5, "s": "tie, second"},
        ],
    )  # fmt: skip
    document = lab.spec(
        topic,
        source={"kafka": {"topics": [topic], "max_offsets_per_trigger": 2}},
        decode={"json": "k INT, v INT, s STRING"},
        sink={"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["k"], "order_by": "v"}},
        lineage="none",
    )
    lab.run(document, 5)
    lab.spark.sql(f"DELETE FROM {table} WHERE k = 2")

    with failpoints.on("after-publish", _at(1)), pytest.raises(Died):
        _run(lab, document, topic, 0, 3, None)
    assert _backfills(catalog, f"{lab.namespace}.t") == [f"{document['id']}@backfill-1"]
    done = _run(lab, document, topic, 0, 3, None)
    assert done.done and done.begun is not None
    assert _backfills(catalog, f"{lab.namespace}.t") == [], "what is done leaves no position behind"
    assert {row["k"]: row["s"] for row in lab.rows()} == {1: "new", 2: "lost", 3: "tie, second"}
    lab.produce(topic, [{"k": 2, "v": 2, "s": "live"}])
    lab.run(document, 1)
    assert {row["k"]: row["s"] for row in lab.rows()}[2] == "live", "the live stream goes on beside it"


def test_a_range_of_windows_is_refused(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}])
    document = lab.spec(topic, transform={"sql": "SELECT n, count(*) AS c FROM source GROUP BY n"}, lineage="none")
    with pytest.raises(Refused, match="it keeps state"):
        _run(lab, document, topic, 0, 1, f"{lab.namespace}.history")
