"""Rows of a range put in the place of those that are there, beside the running stream."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position, of_properties
from lakeward.connectors.iceberg.audit import audit
from lakeward.connectors.kafka import position
from lakeward.engine.assignment import Assignment
from lakeward.operations.backfill.backfill import Report, overwrite
from lakeward.platform.errors import Refused
from lakeward.spec.sql.statements import quote_text
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Died(RuntimeError):
    pass


def _die() -> None:
    raise Died


def _run(lab: Any, document: dict[str, Any], topic: str, start: int, end: int, **more: Any) -> Report:
    first, last = (position.render({topic: {0: each}}) for each in (start, end))
    return overwrite(lab.spark, Assignment(document["id"], 2, document, ""), lab.runtime, first, last, **more)


def _audit(lab: Any, catalog: Any, stream: str) -> Any:
    table = catalog.load_table(f"{lab.namespace}.t")
    at = of_properties(table.properties, table.name())[stream]
    return audit(table, stream, at, catalog.load_table(f"{lab.namespace}.q"))


def _each_once(*hooks: Any) -> Any:
    """The first one the first time, the second one the second time, and then nothing."""
    left = list(hooks)

    def hook() -> None:
        if left:
            left.pop(0)()

    return hook


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_backfill.py::test_a_range_lands_in_a_new_table_once_whatever_dies"
)
@pytest.mark.parametrize(
    "steps", [("after-quarantine", "after-stage", "before-publish", "after-publish")], ids=["each step"]
)
def test_a_range_is_replaced_by_what_the_transform_makes_of_it_now(
    lab: Any, catalog: Any, steps: tuple[str, ...]
) -> None:
    topic, table, stream = lab.topic(), f"lake.{lab.namespace}.t", f"s_{lab.namespace}"
    lab.produce(topic, [{"n": each, "s": "first"} if each != 5 else "junk" for each in range(40)])
    kafka = {"kafka": {"topics": [topic], "max_offsets_per_trigger": 10}}
    before = lab.spec(topic, source=kafka, lineage="rows")
    lab.run(before, 40)
    lab.spark.sql(f"DELETE FROM {table} WHERE n = 30")  # lost
    lab.spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE n IN (3, 31)")  # doubled
    document = lab.spec(
        topic, source={"kafka": {"topics": [topic], "max_offsets_per_trigger": 1}}, lineage="rows",
        transform={"sql": "SELECT * EXCEPT (s), IF(n = 12, 'bad', 'second') AS s FROM source"},
        rules={"good": "s != 'bad'"},
    )  # fmt: skip
    lab.produce(topic, [{"n": 40, "s": "live"}])

    # The live stream lands, and the table is compacted, between the writing and the publication.
    def live() -> None:
        lab.run(before, 1)

    def compact() -> None:
        lab.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{lab.namespace}.t', options => map('rewrite-all', 'true'))"
        ).collect()

    for step in steps:
        with failpoints.on(step, _die), pytest.raises(Died):
            _run(lab, document, topic, 4, 35)
    with failpoints.on("after-stage", _each_once(live, compact)):
        done = _run(lab, document, topic, 4, 35)
    assert done.done
    assert {row["n"] for row in lab.rows() if row["s"] == "live"} == {40}, "what landed meanwhile stays"

    rows = lab.rows()
    assert sorted(row["n"] for row in rows if row["s"] == "second") == [4, *range(6, 12), *range(13, 35)]
    assert sorted(row["n"] for row in rows if row["s"] == "first") == [0, 1, 2, 3, 3, 35, 36, 37, 38, 39]
    found = _audit(lab, catalog, stream)
    assert (found.missing, found.duplicates, found.beyond, found.quarantined) == (0, 1, 0, 2), "3 is out of the range"
    _run(lab, document, topic, 0, 4)
    assert _audit(lab, catalog, stream).clean
    properties = catalog.load_table(f"{lab.namespace}.t").properties
    assert [name for name in of_properties(properties, "t") if "@" in name] == []
    lab.produce(topic, [{"n": 41, "s": "live"}])
    lab.run(before, 1)
    assert _audit(lab, catalog, stream).clean, "the stream goes on"


def test_what_would_leave_the_audit_blind_is_refused(lab: Any, catalog: Any) -> None:
    topic = lab.topic()
    document = lab.spec(topic, lineage="rows")
    with pytest.raises(Refused, match="blocks the streams that read"):
        _run(lab, document, topic, 0, 1, readers=["reader"])
    lab.produce(topic, [{"n": each} for each in range(6)])
    lab.run(document, 6)
    table = catalog.load_table(f"{lab.namespace}.t")
    before = table.current_snapshot().snapshot_id
    with pytest.raises(Refused, match="drops 2 of 4 records"):
        _run(lab, {**document, "transform": {"sql": "SELECT * FROM source WHERE n > 1"}}, topic, 0, 4)
    with pytest.raises(Refused, match="do not carry their source position: _kafka_offset"):
        _run(lab, {**document, "transform": {"sql": "SELECT * EXCEPT (_kafka_offset) FROM source"}}, topic, 0, 4)
    with pytest.raises(Refused, match="nothing of this range"):
        _run(lab, document, topic, 6, 9)

    def set_back() -> None:
        raw = f"lakeward.stream.{document['id']}.position"
        at = Position.model_validate_json(catalog.load_table(f"{lab.namespace}.t").properties[raw])
        moved = at.model_copy(update={"end": {"source": position.render({topic: {0: 2}})}})
        text = quote_text(moved.to_json())
        lab.spark.sql(f"ALTER TABLE lake.{lab.namespace}.t SET TBLPROPERTIES ('{raw}' = {text})")

    with failpoints.on("after-stage", set_back), pytest.raises(Refused, match="set back"):
        _run(lab, document, topic, 0, 4)
    assert catalog.load_table(f"{lab.namespace}.t").current_snapshot().snapshot_id == before
