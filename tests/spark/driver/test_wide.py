"""Very many columns and eight levels of nesting: each record lands as sent, or is kept with the path of its value."""

from __future__ import annotations

from typing import Any

import pytest
import wide

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


@pytest.mark.campaign
@pytest.mark.parametrize("number", [150, 1000])
def test_a_wide_and_deep_stream_lands_and_keeps_its_bad_records_with_the_path(lab: Any, number: int) -> None:
    topic = lab.topic()
    records = [wide.record(key, number) for key in range(20)]
    lab.produce(topic, [*records, wide.record(20, number, c0003="12,50"), wide.record(21, number, leaf="12,50")])
    document = lab.spec(
        topic,
        decode={"json": wide.ddl(number)},
        rules={f"r_{name}": f"{name} IS NOT NULL" for name, _ in wide.columns(40)},
    )
    lab.run(document, 22)
    leaf = "deep.l1[0].l2['a'].l3[0]['x'].l8"
    landed = lab.rows(columns=f"id, c0000, c0003, c{number - 1:04d} AS last, CAST({leaf} AS STRING) AS leaf")
    assert sorted(row["id"] for row in landed) == list(range(20))
    assert {row["id"]: row["leaf"] for row in landed} == {key: f"{key}.5000" for key in range(20)}
    assert {row["id"]: row["c0000"] for row in landed} == {key: key / 4 for key in range(20)}
    assert all(row["last"] is not None for row in landed)
    kept = {row["_kafka_offset"]: row["error"] for row in lab.rows("q")}
    assert kept == {20: 'c0003: not DECIMAL(18,4): "12,50"', 21: f'{wide.LEAF}: not DECIMAL(18,4): "12,50"'}
