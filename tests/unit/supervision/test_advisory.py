"""Early warnings, read from a real registry and told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from lakeward.quality.advisory.counted import counters
from lakeward.registry import batches, verifications
from lakeward.registry import counters as told
from lakeward.registry.schema import generations, streams
from lakeward.spec.model.suite import Suite
from lakeward.supervision import advisory

NULLS = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier"}, "severity": "critical"}
UNIQUE = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}
SUITE = Suite.model_validate({"table": "nyc.flights", "owner": "me", "expectations": [NULLS, UNIQUE]})
NOW = datetime.now(UTC)


def _landed(registry: Any, batch: int, failing: int) -> None:
    check = SUITE.expectations[0].id
    batches.record(
        registry, stream="flights", query_id="q", batch_id=batch, seq=batch + 1, generation=1, landed=520,
        advisory={check: [failing, 520]} if failing else {}, committed_at=NOW - timedelta(seconds=12),
    )  # fmt: skip


def test_a_warning_is_told_until_the_check_has_decided(registry: Any) -> None:
    registry.execute(insert(streams).values(id="flights", generation=1, driver="d"))
    registry.execute(
        insert(generations).values(
            stream="flights", generation=1, spec={"sink": {"iceberg": {"table": "nyc.flights"}}}, digest="d",
            author="ann", checkpoint="c",
        )
    )  # fmt: skip
    _landed(registry, 811, 40)
    assert advisory.read(registry, "nyc.flights", NOW) == [], "nobody said yet what is counted by"
    made = counters(SUITE)
    for _ in range(2):
        told.say(registry, "nyc.flights", made.digest, made.text)
    [found] = advisory.read(registry, "nyc.flights", NOW)
    name = "column_values_to_not_be_null(carrier)"
    assert found["text"] == f"{name}: 40 of 520 rows of batch 811 (since seq 812, 12 s ago); the check decides"
    assert (found["stream"], found["severity"], found["since_batch"]) == ("flights", "critical", 811)
    _landed(registry, 811, 40)
    _landed(registry, 812, 0)
    [found] = advisory.read(registry, "nyc.flights", NOW)
    assert "40 of 1,040 rows of batches 811 to 812" in found["text"], "a batch that is told twice counts once"
    assert advisory.read(registry, "nyc.flights", NOW, ["other"]) == []
    assert advisory.read(registry, "nyc.other", NOW) == []

    run = {
        "run": "r", "table": "nyc.flights", "suite": "s", "scope": "increment", "verdict": "hold", "at": NOW,
        "batches": [{"stream": "flights", "from_seq": 1, "to_seq": 812}],
    }  # fmt: skip
    check = {"check": made.counted[0].check, "expectation": "e", "severity": "critical", "state": "fail"}
    verifications.record(registry, run, [check])
    assert advisory.read(registry, "nyc.flights", NOW) == []
    none = counters(SUITE.model_copy(update={"advisory": False}))
    told.say(registry, "nyc.flights", none.digest, none.text)
    assert advisory.counted_by(registry, "nyc.flights") == none
