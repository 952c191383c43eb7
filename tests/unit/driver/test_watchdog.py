"""What hangs and what is only slow, idle or waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lakeward.driver.watchdog import DOUBT_S, Watchdog, hung
from lakeward.engine.assignment import Assignment
from lakeward.engine.gate import Draining, Gate
from lakeward.platform.failures import Cause, judge


@dataclass
class Query:
    """As much of a running query as a watchdog looks at."""

    assignment: Assignment
    gate: Gate = field(default_factory=Gate)
    started: float = 0.0
    finished_tasks: int = 0

    stream = "flights"

    def tasks(self) -> object:
        return self.finished_tasks


@pytest.fixture
def query() -> Any:
    document = {
        "id": "flights", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 10}},
        "decode": {"json": "n INT"},
        "sink": {"iceberg": {"table": "ns.t"}}, "trigger": {"every": "10s"}, "limits": {"stall": "2m"},
    }  # fmt: skip
    return Query(Assignment("flights", 1, document, "/ck"))


def test_a_batch_that_gets_nowhere_hangs(query: Any) -> None:
    dog = Watchdog()
    with query.gate.batch(7):
        assert dog.seconds_without_progress(query, 5, now=0.0) is None
        assert dog.seconds_without_progress(query, 5, now=120.0) is None
        assert dog.seconds_without_progress(query, 5, now=121.0) is None, (
            "over its limit: its tasks are looked at from now on"
        )
        assert dog.seconds_without_progress(query, 5, now=121.0 + DOUBT_S) is None
        assert dog.seconds_without_progress(query, 5, now=122.0 + DOUBT_S) == 122.0 + DOUBT_S
        error = hung(query, 152.0, "/launch/dumps/x.txt")
    assert judge(error=error).cause is Cause.HUNG
    assert "Batch 7 of stream flights made no progress for 152 s" in error.what
    assert "/launch/dumps/x.txt" in error.why


def test_on_a_starved_machine_a_task_has_more_time(query: Any) -> None:
    dog = Watchdog(lambda seconds: 4.0 * seconds)
    with query.gate.batch(7):
        assert dog.seconds_without_progress(query, 5, now=0.0) is None
        assert dog.seconds_without_progress(query, 5, now=121.0) is None
        assert dog.seconds_without_progress(query, 5, now=122.0 + DOUBT_S) is None
        assert dog.seconds_without_progress(query, 5, now=122.0 + 4 * DOUBT_S) is not None, "it hangs all the same"


def test_a_slow_batch_whose_tasks_finish_does_not_hang(query: Any) -> None:
    dog = Watchdog()
    with query.gate.batch(7):
        for second in range(0, 3600, 10):
            query.finished_tasks = second // 20
            assert dog.seconds_without_progress(query, 5, now=float(second)) is None


def test_batches_that_follow_each_other_do_not_hang(query: Any) -> None:
    dog = Watchdog()
    for number in range(50):
        with query.gate.batch(number):
            assert dog.seconds_without_progress(query, 5, now=number * 100.0) is None


def test_a_batch_that_waits_for_a_broker_does_not_hang(query: Any) -> None:
    dog = Watchdog()
    with query.gate.batch(1):
        dog.seconds_without_progress(query, 5, now=0.0)
        query.gate.waits = True
        assert dog.seconds_without_progress(query, 5, now=1e4) is None
        query.gate.waits = False
        assert dog.seconds_without_progress(query, 5, now=1e4 + 60) is None, "it has all its time again"


def test_between_batches_only_a_stream_with_something_to_do_hangs(query: Any) -> None:
    dog = Watchdog()
    with query.gate.batch(1):
        pass
    assert dog.seconds_without_progress(query, 0, now=0.0) is None
    assert dog.seconds_without_progress(query, 0, now=1e4) is None, "nothing waits"
    assert dog.seconds_without_progress(query, None, now=2e4) is None, "nobody knows whether anything waits"
    assert dog.seconds_without_progress(query, 3, now=2e4 + 120) is None
    assert dog.seconds_without_progress(query, 3, now=2e4 + 121) == 121.0


def test_a_stream_that_lands_seldom_does_not_hang_in_between(query: Any) -> None:
    rare = Assignment("flights", 1, {**query.assignment.document, "trigger": {"every": "1h"}}, "/ck")
    query, dog = Query(rare), Watchdog()
    dog.seconds_without_progress(query, 3, now=0.0)
    assert dog.seconds_without_progress(query, 3, now=7200.0) is None
    assert dog.seconds_without_progress(query, 3, now=7201.0) == 7201.0


def test_a_pause_inside_a_batch_is_seen_as_one(query: Any) -> None:
    with query.gate.batch(1):
        query.gate.pause(0.0)
        assert not query.gate.waits
        query.gate.close()
        with pytest.raises(Draining):
            query.gate.pause(60)
        assert not query.gate.waits
