"""Every change of a group into a topic: the newest record of a key is the group as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.platform.errors import SpecError

SQL = "SELECT window(t, '1 hour').start AS hour, origin, count(*) AS n FROM source GROUP BY window(t, '1 hour'), origin"


@pytest.fixture
def document(lab: Any) -> Callable[..., dict[str, Any]]:
    def make(topic: str, changes: str, **sink: str) -> dict[str, Any]:
        wanted = {"topic": changes, "mode": "update", "key": "to_json(struct(hour, origin))", **sink}
        return dict(
            lab.spec(
                topic,
                decode={"json": "origin STRING, t TIMESTAMP"},
                watermark={"column": "t", "delay": "2h"},
                transform={"sql": SQL},
                sink={"kafka": wanted},
                # A batch without records, for the watermark alone, may be over before the stream is stopped, or not.
                spark={"spark.sql.shuffle.partitions": 2, "spark.sql.streaming.noDataMicroBatches.enabled": False},
            )
        )

    return make


def at(hour: int, origin: str | None = "JFK") -> dict[str, str | None]:
    return {"origin": origin, "t": f"2013-01-01T{hour:02d}:30:00Z"}


def read(lab: Any, topic: str) -> list[tuple[int, str, int]]:
    """(hour, origin, n) of every record, by the key alone for the first two."""
    found = []
    for message in lab.kafka.sent(topic):
        key, value = json.loads(message.key()), json.loads(message.value())
        assert (key["hour"], key.get("origin")) == (value["hour"], value.get("origin"))
        found.append((int(key["hour"][11:13]), key.get("origin"), value["n"]))
    return found


def test_each_change_is_sent_once_it_happens_and_again_when_its_batch_runs_again(
    lab: Any, document: Callable[..., dict[str, Any]]
) -> None:
    topic, changes = lab.topic(), lab.topic(**{"cleanup.policy": "compact"})
    spec = document(topic, changes)
    first = [at(5), at(5), at(6), at(6, "EWR")]
    lab.produce(topic, first)
    running = lab.start(spec)
    lab.until("the first batch", lambda: sum(done.consumed for done in lab.done) == 4)
    assert sorted(read(lab, changes)) == [(5, "JFK", 2), (6, "EWR", 1), (6, "JFK", 1)], "no window is over yet"
    second = [at(5), at(7), at(7)]
    lab.land(topic, *second)
    assert running.stop(60)
    told = read(lab, changes)
    assert sorted(told[3:]) == [(5, "JFK", 3), (7, "JFK", 2)], "what did not change is not sent"
    # As after a kill between the send and Spark's own note of the batch.
    commits = Path(lab.folder) / "checkpoints" / spec["id"] / "1" / "commits"
    newest = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):
        (commits / name).unlink(missing_ok=True)
    lab.produce(topic, [at(12), at(1)])  # the watermark, at 05:30, does not take hour 1 any more
    lab.run(spec, 3 + 2)
    again = read(lab, changes)
    assert sorted(again[5:7]) == sorted(told[3:]), "at least once: the batch came again, with the same values"
    assert {(hour, origin): n for hour, origin, n in again} == {
        (5, "JFK"): 3, (6, "JFK"): 1, (6, "EWR"): 1, (7, "JFK"): 2, (12, "JFK"): 1,
    }, "the newest record of each key is what a batch over the same records gives"  # fmt: skip


@pytest.mark.parametrize(
    ("key", "records", "words"),
    [
        ("hour", [at(5), at(5, "EWR")], "2 groups have the key"),
        pytest.param(
            "origin",
            [at(5, None)],
            "a group has no key",
            marks=pytest.mark.campaign(held_by="test_a_key_that_does_not_tell_groups_apart_stops_the_stream"),
        ),
    ],
)
def test_a_key_that_does_not_tell_groups_apart_stops_the_stream(
    lab: Any, document: Callable[..., dict[str, Any]], key: str, records: list[Any], words: str
) -> None:
    topic, changes = lab.topic(), lab.topic()
    lab.produce(topic, records)
    error = lab.fail(document(topic, changes, key=key))
    assert isinstance(error, SpecError)
    assert words in error.why
    assert "to_json(struct(" in error.next
    assert read(lab, changes) == []
