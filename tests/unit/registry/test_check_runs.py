"""Claims of check runs: one worker at a time, a takeover fences the older one, nothing is kept twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from lakeward.registry import check_runs
from lakeward.registry.check_runs import CLAIMS, DONE, Claim, Claimed, Fenced
from lakeward.registry.listen import Notifications

TTL, WANTED, TIMEOUT = timedelta(seconds=15), timedelta(seconds=30), timedelta(minutes=5)
OVER = timedelta(seconds=-1)
HERE = "here"
Other = Callable[[], AbstractContextManager[Connection]]


def ask(registry: Connection, *, wanted: timedelta = WANTED, timeout: timedelta = TIMEOUT, place: str = HERE) -> int:
    return check_runs.ask(
        registry, place, {"tables": ["ns.t"]}, asked_by="tests", timeout=timeout, wait=wanted
    )  # fmt: skip


def claimed(registry: Connection, ttl: timedelta = TTL, place: str = HERE, run: int | None = None) -> Claimed | None:
    return check_runs.claim(registry, "worker", ttl, place=place, run=run)


def held(registry: Connection, claim: Claim) -> bool:
    try:
        check_runs.hold(registry, claim)
    except Fenced:
        return False
    return True


def test_a_run_is_claimed_once_the_oldest_first(registry):
    first, second = ask(registry), ask(registry)
    found = claimed(registry)
    assert found is not None and found.claim == Claim(first, 1)
    assert (found.request, found.session_id) == ({"tables": ["ns.t"]}, None)
    assert 299 < found.remaining_s <= 300
    assert claimed(registry, run=first) is None, "somebody works on it"
    assert (one := claimed(registry)) is not None and one.claim == Claim(second, 1)
    assert claimed(registry) is None


@pytest.mark.parametrize("kept", [{"wanted": OVER}, {"timeout": OVER}, {"place": "elsewhere"}])
def test_what_nobody_waits_for_or_has_no_time_or_is_of_another_lake_is_not_begun(registry, kept):
    ask(registry, **kept)
    assert claimed(registry) is None


def test_withdrawn_before_it_was_begun_it_never_is(registry):
    run = ask(registry)
    check_runs.withdraw(registry, run)
    registry.execute(text("UPDATE check_runs SET wanted_until = wanted_until - interval '1 second'"))
    assert claimed(registry) is None


def test_a_heartbeat_keeps_a_run_and_tells_the_asker(registry):
    run = ask(registry)
    found = claimed(registry, OVER)
    assert found is not None
    assert check_runs.beat(registry, found.claim, TTL, [("info", "one", {}), ("error", "two", {"n": 2})])
    assert check_runs.beat(registry, found.claim, TTL, [("info", "three", {})])
    assert claimed(registry) is None
    seen = check_runs.extend_wait(registry, run, WANTED)
    assert seen is not None and (seen.state, seen.claim, seen.owner, seen.expired_s) == ("working", 1, "worker", None)
    assert [each[1] for each in seen.told] == ["one", "two", "three"]


def test_past_its_heartbeat_a_run_is_taken_over_and_the_older_claim_is_fenced(registry):
    run = ask(registry)
    one = claimed(registry, OVER)
    assert one is not None
    check_runs.remember_session(registry, one.claim, "session-1")
    seen = check_runs.extend_wait(registry, run, WANTED)
    assert seen is not None and seen.expired_s is not None and seen.expired_s >= 1
    assert held(registry, one.claim), "nobody took it: a paused process may go on"
    two = claimed(registry)
    assert two is not None and two.claim == Claim(run, 2)
    assert two.session_id == "session-1", "to be ended first"
    assert not held(registry, one.claim)
    assert not check_runs.beat(registry, one.claim, TTL, [("info", "from the grave", {})])
    assert not check_runs.finish(registry, one.claim, DONE, {"results": ["wrong"]})
    assert not check_runs.give_back(registry, one.claim)
    check_runs.remember_session(registry, one.claim, "session-3")
    assert held(registry, two.claim)
    assert check_runs.finish(registry, two.claim, DONE, {"results": []}, [("info", "last", {})])
    seen = check_runs.extend_wait(registry, run, WANTED)
    assert seen is not None and (seen.state, seen.answer) == (DONE, {"results": []})
    assert [each[1] for each in seen.told] == ["last"]


def test_what_was_answered_is_not_answered_again(registry):
    ask(registry)
    found = claimed(registry, OVER)
    assert found is not None and check_runs.finish(registry, found.claim, DONE, {"results": []})
    assert not held(registry, found.claim)
    assert not check_runs.finish(registry, found.claim, DONE, {"results": ["again"]})
    assert claimed(registry) is None


def test_a_run_given_back_is_begun_again_by_another_at_once(registry):
    ask(registry)
    one = claimed(registry)
    assert one is not None and check_runs.give_back(registry, one.claim)
    assert not held(registry, one.claim)
    two = claimed(registry)
    assert two is not None and two.claim.number == 2


def test_a_run_that_ends_all_its_workers_is_not_begun_for_ever(registry):
    ask(registry)
    for _ in range(CLAIMS):
        assert claimed(registry, OVER) is not None
    assert claimed(registry) is None


def test_two_workers_at_once_never_have_the_same_run(other: Other):
    with other() as connection:
        runs = {ask(connection) for _ in range(4)}
    got: list[int] = []

    def take() -> None:
        for _ in range(8):
            with other() as connection:
                found = claimed(connection)
            if found is not None:
                got.append(found.claim.run)

    workers = [threading.Thread(target=take) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert sorted(got) == sorted(runs)


def test_nobody_takes_a_run_over_while_its_result_is_being_kept(other: Other):
    with other() as connection:
        ask(connection)
        one = claimed(connection, OVER)
    assert one is not None
    with other() as keeping:
        check_runs.hold(keeping, one.claim)
        with other() as connection:
            assert claimed(connection) is None, "or both would keep a result"
    with other() as connection:
        assert claimed(connection) is not None


@pytest.fixture
def notices(registry_url: str, postgres) -> Iterator[Notifications]:
    with Notifications(registry_url, postgres.pgpass, check_runs.CHANNEL) as made:
        yield made


def test_a_run_that_is_asked_for_wakes_whoever_waits(other: Other, notices: Notifications):
    def later() -> None:
        with other() as connection:
            ask(connection)

    asker = threading.Timer(0.1, later)
    asker.start()
    assert notices.wait(60)
    with other() as connection:
        assert claimed(connection) is not None
    asker.join()


def notified_of_a_run(other: Other, notices: Notifications) -> bool:
    with other() as connection:
        ask(connection)
    return notices.wait(1)


def test_a_listener_whose_connection_is_ended_listens_again(other: Other, notices: Notifications):
    with other() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"
                " AND datname = current_database()"
            )
        )
    assert any(notified_of_a_run(other, notices) for _ in range(10)), "the first waits only learn that it was ended"
