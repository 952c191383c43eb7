"""Runs that land what is there and end by themselves: caps, replays, state."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

NOW = {"available_now": True, "schedule": "0 * * * *"}


def run(lab: Any, document: dict[str, Any]) -> Any:
    """Start a stream and wait until its query has ended by itself."""
    running = lab.start(document)
    lab.until("the end", lambda: not running.active)
    return running


def test_a_run_lands_what_is_there_under_its_cap_once_and_completes(lab: Any) -> None:
    topic = lab.topic()
    source = {"kafka": {"topics": [topic], "max_offsets_per_trigger": 2}}
    document = lab.spec(topic, source=source, trigger=NOW)
    lab.produce(topic, [{"n": each} for each in range(5)])

    def die() -> None:
        raise RuntimeError("killed after the table was told, before Spark was")

    with failpoints.on("before-return", die):
        lab.fail(document)
    assert not lab.started[-1].completed, "a query that failed has completed nothing"
    lab.started.clear()
    rest = run(lab, document)
    assert rest.completed
    assert rest.function.landed == (2, 3), "the first batch was there already"
    assert sorted(row["n"] for row in lab.rows()) == list(range(5))
    assert [done.consumed for done in lab.done] == [2, 2, 1]

    idle = run(lab, document)
    assert (idle.completed, idle.function.landed) == (True, (0, 0))
    lab.produce(topic, [{"n": 5}])
    assert run(lab, document).function.landed == (1, 1)
    assert sorted(row["n"] for row in lab.rows()) == list(range(6))


@pytest.mark.campaign(held_by="test_a_run_lands_what_is_there_under_its_cap_once_and_completes")
def test_a_window_that_the_last_record_closes_lands_in_the_same_run(lab: Any) -> None:
    topic = lab.topic()
    document = lab.spec(
        topic,
        decode={"json": "n INT, at TIMESTAMP"},
        watermark={"column": "at", "delay": "1m"},
        transform={"sql": "SELECT window.start AS minute, count(*) AS c FROM source GROUP BY window(at, '1 minute')"},
        spark={"spark.sql.shuffle.partitions": 2},
        trigger=NOW,
    )
    lab.produce(topic, [{"n": each, "at": f"2026-03-01T10:0{each}:00Z"} for each in range(4)])
    assert run(lab, document).completed

    def minutes() -> dict[int, int]:
        return {row["minute"].minute: row["c"] for row in lab.rows()}

    assert minutes() == {0: 1, 1: 1}, "what the watermark has passed is final, without another record"
    lab.produce(topic, [{"n": 9, "at": "2026-03-01T10:09:00Z"}])
    run(lab, document)
    assert minutes() == {0: 1, 1: 1, 2: 1, 3: 1}
