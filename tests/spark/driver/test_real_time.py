"""Rows that leave as they come: none lost whatever is killed, doubled only since the last boundary, bad ones kept."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from lakeward.engine.gate import wait_until
from lakeward.platform.errors import Blocked, SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def hop(lab: Any, topic: str, out: str, trigger: dict[str, str], **source: Any) -> dict[str, Any]:
    return dict(
        lab.spec(
            topic,
            source={"kafka": {"topics": [topic], **source}},
            transform={"sql": "SELECT * FROM source WHERE n >= 0"},
            rules={"small": "n < 1000"},
            sink={"kafka": {"topic": out, "key": "CAST(n AS STRING)"}},
            trigger=trigger,
        )
    )


def sent(lab: Any, topic: str) -> list[int]:
    found = []
    for message in lab.kafka.sent(topic):
        value = json.loads(message.value())
        assert message.key() == str(value["n"]).encode()
        assert value["_ingested_at"] >= value["_kafka_timestamp"]
        found.append(value["n"])
    return found


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(
            {"real_time": "5s"},
            marks=pytest.mark.campaign(held_by="test_a_stream_of_batches_becomes_real_time_on_its_checkpoint_and_back"),
        ),
        pytest.param({"continuous": "1s"}, marks=pytest.mark.campaign),
    ],
    ids=["real-time", "continuous"],
)
def test_each_row_leaves_before_its_boundary_and_the_bad_ones_are_kept_after_it(lab: Any, trigger: Any) -> None:
    topic, out = lab.topic(), lab.topic()
    document = hop(lab, topic, out, trigger, starting_offsets="latest")
    lab.produce(topic, [{"n": 999}])  # before anybody wanted it
    lab.start(document).kill()  # where `latest` is was settled all the same
    lab.produce(topic, [{"n": 0}])
    running = lab.start(document)
    lab.produce(topic, [{"n": 1}, "junk", {"n": -1}, {"n": 5000}, {"n": 2}])
    lab.until("rows", lambda: len(sent(lab, out)) == 3)
    assert running.stop(600)
    assert sorted(sent(lab, out)) == [0, 1, 2]
    assert sorted((r["reason"], r["_kafka_offset"]) for r in lab.rows("q")) == [("decode", 3), ("small", 5)]
    counted = [(d.consumed, d.outcome.landed, d.quarantined, d.outcome.filtered) for d in lab.done if d.consumed]
    assert tuple(map(sum, zip(*counted, strict=True))) == (6, 3, 2, 1)
    assert running.failure() is None

    lab.produce(topic, [{"n": 3}, "junk"])  # while it is stopped
    running = lab.start(document)
    assert running.finding == "clean"
    lab.until("the row that waited", lambda: 3 in sent(lab, out))

    def die() -> None:
        raise RuntimeError("killed")

    with failpoints.on("batch-start", die):  # after the boundary, before its records are accounted for
        wait_until(lambda: not running.active, 600)
    assert str((running.failure() or [None])[0]) == "killed"
    lab.started.clear()
    running = lab.start(document)
    lab.until("the row of quarantine", lambda: len(lab.rows("q")) == 3)
    lab.produce(topic, [{"n": 4}, "more junk"])
    lab.until("a row", lambda: 4 in sent(lab, out))
    running.kill()

    running = lab.start(document)
    lab.produce(topic, [{"n": 5}])
    lab.until("the last row", lambda: 5 in sent(lab, out))
    assert running.stop(600)
    times = Counter(sent(lab, out))
    assert sorted(times) == [0, 1, 2, 3, 4, 5]  # none lost
    assert [n for n, count in times.items() if count > 1 and n != 4] == []  # their boundary was kept
    assert sorted(r["_kafka_offset"] for r in lab.rows("q")) == [3, 5, 8, 10]


def test_a_driver_with_too_few_cores_is_refused_with_both_numbers(lab: Any) -> None:
    document = hop(lab, lab.topic(3), lab.topic(), {"real_time": "5s"})
    with pytest.raises(SpecError, match="needs 4 cores and its driver has 2") as refused:
        lab.start(document)
    assert "resources: {cores: 4}" in refused.value.next


@pytest.mark.parametrize(
    "trigger",
    [
        {"real_time": "5s"},
        pytest.param(
            {"continuous": "1s"},
            marks=pytest.mark.campaign(held_by="test_a_stream_of_batches_becomes_real_time_on_its_checkpoint_and_back"),
        ),
    ],
    ids=["real-time", "continuous"],
)
def test_a_stream_of_batches_becomes_real_time_on_its_checkpoint_and_back(lab: Any, trigger: Any) -> None:
    topic = lab.topic()
    passing = hop(lab, topic, "", trigger) | {"sink": {"console": {}}}
    source = {"kafka": {"topics": [topic], "max_offsets_per_trigger": 10}}
    batches = passing | {"source": source, "trigger": {"every": "100ms"}}
    lab.produce(topic, [{"n": 1}, "junk"])
    lab.run(batches, 2)
    running = lab.start(passing)
    lab.produce(topic, [{"n": 2}, {"n": 3}, "more junk"])
    lab.until("its records", lambda: sum(each.consumed for each in lab.done) == 5)
    assert running.stop(600)
    assert sum(each.outcome.landed for each in lab.done) == 3
    if "continuous" in trigger:
        with pytest.raises(Blocked, match="was written by continuous processing"):
            lab.start(batches)
    else:
        lab.produce(topic, [{"n": 4}])
        lab.run(batches, 1)
        assert sum(each.consumed for each in lab.done) == 6
    assert sorted(r["_kafka_offset"] for r in lab.rows("q")) == [1, 4]
