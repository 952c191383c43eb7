"""What follows a failure, with a real registry."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from lakeward.driver.decide import Action, Exit, decide
from lakeward.driver.failing import Failure, Failures
from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.platform.errors import Awaited, Blocked, DependencyDown, NotTheRecords, Poison, SpecError
from lakeward.platform.failures import FailureClass
from lakeward.registry import drivers, events, observations, restarts, streams


@pytest.fixture
def wanted(stream: str) -> Assignment:
    return Assignment(stream, 1, {}, "/ck")


@pytest.fixture
def failures(driver: str, connect: Any) -> Failures:
    return Failures(driver, connect, chance=lambda: 0.5)


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_dependency_is_tried_again_with_growing_pauses(
    failures: Failures, wanted: Assignment, connect: Any, driver: str
) -> None:
    error = DependencyDown("Kafka does not answer", why="brokers 127.0.0.1:1")
    for attempt in (1, 2, 3):
        assert failures.handle(wanted, Failure(error), NOW) == "dependency"
        assert wanted.stream in failures.waiting(0.0)
        with connect() as connection:
            newest = restarts.newest(connection)[driver, wanted.stream]
            row = streams.get(connection, wanted.stream)
            seen = observations.latest(connection)[wanted.stream]
        assert newest.attempt == attempt
        assert row.run_after == NOW + timedelta(seconds=10 * 2 ** (attempt - 1) * 2 * 0.5)
        assert row.blocked is None
        assert (seen.query_state, seen.error["class"]) == ("failed", "dependency")
        assert "brokers 127.0.0.1:1" in seen.error["error"]


def test_it_starts_again_only_on_a_picture_taken_after_the_record(failures: Failures, wanted: Assignment) -> None:
    before = time.monotonic()
    failures.handle(wanted, Failure(DependencyDown("down")), NOW)
    assert failures.waiting(before) == {wanted.stream}, "this picture is from before: it still says run"
    assert failures.waiting(time.monotonic()) == frozenset(), "this one knows the pause"


def test_a_stream_that_failed_and_is_stopped_then_does_not_keep_its_driver(
    failures: Failures, wanted: Assignment, connect: Any, driver: str
) -> None:
    failures.handle(wanted, Failure(DependencyDown("down")), datetime.now(UTC))

    def act() -> list[Action]:
        taken = time.monotonic()
        with connect() as connection:
            now = connection.execute(select(func.now())).scalar_one()
            [row] = drivers.hosted(connection, driver)
        later = [row.id] if row.desired == "running" and row.run_after > now else []
        picture = DesiredState(now, later=frozenset(later), hosted=frozenset([row.id]))
        return decide(picture, {}, ending=False, waiting=failures.waiting(taken))

    assert act() == [], "its back-off is not over"
    with connect() as connection:
        streams.set_desired(connection, [wanted.stream], "stopped")
    assert act() == [Exit(0, "no stream is to run")]


def test_a_wrong_spec_blocks_with_what_why_next(failures: Failures, wanted: Assignment, connect: Any) -> None:
    failures.handle(wanted, Failure(SpecError("does not fit", why="column x", next="correct it")), NOW)
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert {key: blocked[key] for key in ("reason", "what", "why", "next")} == {
        "reason": "config", "what": "does not fit", "why": "column x", "next": "correct it",
    }  # fmt: skip
    assert failures.waiting(time.monotonic()) == frozenset(), "the block is the registry's now"


def test_what_does_not_exist_yet_is_asked_for_again_within_a_minute_and_blocks_nothing(
    driver: str, wanted: Assignment, connect: Any
) -> None:
    failures = Failures(driver, connect, chance=lambda: 0.999)
    for _ in range(8):
        failures.handle(wanted, Failure(Awaited("Kafka has no topic flights")), NOW)
    with connect() as connection:
        row = streams.get(connection, wanted.stream)
    assert row.blocked is None
    assert row.run_after is not None
    assert 0 < (row.run_after - NOW).total_seconds() <= 60


def test_a_block_keeps_its_reason(failures: Failures, wanted: Assignment, connect: Any) -> None:
    failures.handle(wanted, Failure(Blocked("gap", why="3 to 5", reason="gap"), batch_id=7), NOW)
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert (blocked["reason"], blocked["batch"], blocked["why"]) == ("gap", 7, "3 to 5")


def test_a_batch_that_fails_the_same_way_three_times_waits_for_a_person(
    driver: str, wanted: Assignment, connect: Any
) -> None:
    failures = Failures(driver, connect, chance=lambda: 0.5, log=lambda stream: [f"the last line about {stream}"])

    def fail(batch: int, end: str = "20", text: str = "[DIVIDE_BY_ZERO] Division by zero in task 17") -> Any:
        offsets = {"source": {"start": "10", "end": end}}
        failures.handle(wanted, Failure(RuntimeError(text), batch_id=batch, offsets=offsets), NOW)
        with connect() as connection:
            return streams.get(connection, wanted.stream).blocked

    assert [fail(4), fail(4), fail(5), fail(5)] == [None] * 4, "another batch is another failure"
    assert [fail(5, end="30"), fail(5, end="30")] == [None] * 2, "so is another range of records"
    blocked = fail(5, end="30", text="[DIVIDE_BY_ZERO] Division by zero in task 99")
    assert blocked["reason"] == "poison", "a number in the text makes no other error of it"
    assert blocked["what"] == f"Batch 5 of stream {wanted.stream} failed 3 times in the same way"
    assert blocked["offsets"] == {"source": {"start": "10", "end": "30"}}
    assert f"streams skip-batch {wanted.stream} --batch 5" in blocked["next"]
    assert "DIVIDE_BY_ZERO" in blocked["why"]
    assert "DIVIDE_BY_ZERO" in blocked["error"]
    assert blocked["log"] == [f"the last line about {wanted.stream}"]
    with connect() as connection:
        error = observations.latest(connection)[wanted.stream].error
    assert (error["class"], error["batch_id"], error["offsets"]["source"]["end"]) == ("poison", 5, "30")


@pytest.mark.parametrize("step", ["", "correct it in python/, then: lakeward deploy"])
def test_what_helps_against_a_known_cause_is_said_instead_of_the_transform(
    failures: Failures, wanted: Assignment, connect: Any, step: str
) -> None:
    error = Poison("A record has a time that Spark cannot read", why="t/0 offset 4", next=step, code="LW-3491")
    for _ in range(3):
        failures.handle(wanted, Failure(error, batch_id=5, offsets={"source": {"start": "1", "end": "2"}}), NOW)
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert "why:  t/0 offset 4" in blocked["why"]
    skip = f"skip its records: lakeward streams skip-batch {wanted.stream} --batch 5"
    assert blocked["next"].startswith(f"{step}; or {skip}" if step else skip)


def test_a_batch_that_fails_without_its_records_is_not_offered_to_be_skipped(
    failures: Failures, wanted: Assignment, connect: Any
) -> None:
    error = NotTheRecords("Batch 5 cannot land, whatever its records are", why="no folder", next="mend it", code="LW-1")
    failure = Failure(error, text="java.io.IOException", batch_id=5, offsets={"source": {"start": "1", "end": "2"}})
    classes = [failures.handle(wanted, failure, NOW) for _ in range(3)]
    assert classes == [FailureClass.INFRA, FailureClass.INFRA, FailureClass.CONFIG], "somebody may mend it meanwhile"
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert (blocked["reason"], blocked["why"], blocked["next"]) == ("config", "no folder", "mend it")


@pytest.mark.parametrize("batch", [None, 0])
def test_a_plan_that_overflows_the_stack_twice_waits_for_a_smaller_one(
    failures: Failures, wanted: Assignment, connect: Any, batch: int | None
) -> None:
    error = Failure(RuntimeError("java.lang.StackOverflowError"), text="java.lang.StackOverflowError: ", batch_id=batch)
    assert failures.handle(wanted, error, NOW) is FailureClass.INFRA
    with connect() as connection:
        assert streams.get(connection, wanted.stream).blocked is None
    assert failures.handle(wanted, error, NOW) is FailureClass.CONFIG
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert blocked["what"] == f"Stream {wanted.stream} failed 2 times in the same way: plan too large"
    assert "StackOverflowError" in blocked["why"]
    assert f"conf/streams/{wanted.stream}.yaml" in blocked["next"]
    assert f"lakeward streams upgrade {wanted.stream} --wait" in blocked["next"]


def test_a_neighbour_that_ends_the_process_does_not_make_the_count_begin_again(
    driver: str, wanted: Assignment, connect: Any
) -> None:
    offsets = {"source": {"start": "1", "end": "2"}}
    error = Failure(RuntimeError("[DIVIDE_BY_ZERO] task 17"), batch_id=5, offsets=offsets)
    blocked = []
    for _ in range(3):  # each in a process of its own
        Failures(driver, connect, chance=lambda: 0.5).handle(wanted, error, NOW)
        with connect() as connection:
            blocked.append(streams.get(connection, wanted.stream).blocked)
    assert blocked[:2] == [None, None]
    assert blocked[2]["what"] == f"Batch 5 of stream {wanted.stream} failed 3 times in the same way"
    with connect() as connection:
        assert restarts.newest(connection)[driver, wanted.stream].attempt == 3


def test_a_value_the_registry_cannot_hold_is_spelled_out_and_counts_like_any_other(
    driver: str, wanted: Assignment, connect: Any
) -> None:
    value = "[CAST_INVALID_INPUT] The value 'a\x00b\ud800' cannot be cast"
    error = Failure(RuntimeError(value), batch_id=5, offsets={"source": {"start": "1", "end": "2"}})
    for _ in range(3):  # each in a process of its own: the count comes from the registry
        Failures(driver, connect, chance=lambda: 0.5, log=lambda stream: [value]).handle(wanted, error, NOW)
    with connect() as connection:
        blocked = streams.get(connection, wanted.stream).blocked
    assert blocked["reason"] == "poison"
    assert blocked["error"] == "[CAST_INVALID_INPUT] The value 'a\\u0000b\\ud800' cannot be cast"
    assert blocked["log"] == [blocked["error"]]


def test_a_failure_of_long_ago_makes_no_pause_longer(driver: str, wanted: Assignment, connect: Any) -> None:
    down = Failure(DependencyDown("Kafka does not answer"))
    for now in (datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)):
        Failures(driver, connect, chance=lambda: 0.5).handle(wanted, down, now)
        with connect() as connection:
            assert restarts.newest(connection)[driver, wanted.stream].attempt == 1


def test_an_unknown_error_of_one_batch_becomes_that_batchs(
    failures: Failures, wanted: Assignment, connect: Any
) -> None:
    error = ValueError("something nobody has a class for")
    found = [failures.handle(wanted, Failure(error, batch_id=3), NOW) for _ in range(3)]
    assert found == ["infra", "infra", "poison"]
    with connect() as connection:
        assert streams.get(connection, wanted.stream).blocked["batch"] == 3


def test_a_full_disk_names_its_cause_and_blocks_nothing(failures: Failures, wanted: Assignment, connect: Any) -> None:
    text = "java.io.IOException: No space left on device"
    for _ in range(5):
        failures.handle(wanted, Failure(RuntimeError("Job aborted"), text=text, batch_id=3), NOW)
    with connect() as connection:
        assert streams.get(connection, wanted.stream).blocked is None
        assert observations.latest(connection)[wanted.stream].error["cause"] == "disk full"
        told = events.newest(connection, "stream", wanted.stream)[-1]
    assert told.fields["cause"] == "disk full"
    assert "disk full" in told.text


def test_while_the_registry_is_away_the_pause_is_kept_here(driver: str, wanted: Assignment, connect: Any) -> None:
    away = True

    def reach() -> Any:
        if away:
            raise DependencyDown("away")
        return connect()

    failures = Failures(driver, reach, base=timedelta(milliseconds=100), chance=lambda: 0.5)
    run = frozenset([wanted.stream])
    failures.handle(wanted, Failure(DependencyDown("down")), NOW)
    assert failures.waiting(time.monotonic()) == run
    time.sleep(0.15)
    assert failures.waiting(time.monotonic()) == frozenset(), "exact streams do not need the registry to go on"
    failures.handle(wanted, Failure(SpecError("wrong")), NOW)
    time.sleep(0.05)
    assert failures.waiting(time.monotonic()) == run, "a block waits until the registry has it"
    away = False
    assert failures.waiting(time.monotonic()) == run
    with connect() as connection:
        assert streams.get(connection, wanted.stream).blocked["reason"] == "config"


def test_py4js_own_sentence_is_not_the_error_people_read() -> None:
    text = "o.a.s.CatalogNotFoundException: The catalog `lake` not found\njava.net.ConnectException: Connection refused"
    words = Failure(RuntimeError("An error occurred while calling o359.catalog.\n: ..."), text=text).words
    assert words.splitlines() == [
        "o.a.s.CatalogNotFoundException: The catalog `lake` not found",
        "  caused by java.net.ConnectException: Connection refused",
    ]
