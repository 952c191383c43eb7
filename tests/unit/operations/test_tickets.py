"""One operation at a time has a stream: decided by the registry, taken over only from the dead."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import Refused
from lakeward.registry import operations, streams
from lakeward.supervision import abandoned_operations
from lakeward.supervision.startup_grace import StartupGracePeriod


@pytest.fixture
def operator(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(
        StartupGracePeriod, "answered", lambda self, server_up_s: None
    )  # the test's server has only just started
    return Runner(connected, runtime, author="ada", holder="the command line of ada on here", backend=backend)


def begin(connected, operation="upgrade", token="t", **more):
    with connected() as connection:
        return operations.begin(
            connection, "flights", operation, author="bob", holder="bob's shell", token=token, **more
        )


def die(connected) -> None:
    with connected() as connection:
        connection.execute(text("UPDATE leases SET until = now() - interval '1 s' WHERE scope = 'operation'"))
        connection.execute(text("UPDATE operations SET requested_at = now() - interval '1 hour'"))


def test_a_second_operation_is_refused_with_who_what_and_since_when(operator, deployed, connected) -> None:
    deployed("flights", "alerts", desired="running")
    ticket = begin(connected)
    with pytest.raises(Refused, match="locked by another operation") as refused:
        operator.run(Request(StreamOperation.STOP, "flights", wait=False))
    assert "the upgrade requested by bob" in refused.value.why
    assert refused.value.why.startswith("bob's shell executes")
    assert refused.value.exit_code == 4
    assert operator.run(Request(StreamOperation.STOP, "alerts", wait=False)).result == "done"
    with connected() as connection:
        operations.end(connection, ticket, "done", "upgraded")
    assert operator.run(Request(StreamOperation.STOP, "flights", wait=False)).result == "done"


def test_of_many_that_ask_in_the_same_instant_one_gets_it(deployed, connected) -> None:
    deployed("flights", desired="stopped")
    barrier, got, refused = threading.Barrier(4), [], []

    def ask(number: int) -> None:
        barrier.wait()
        try:
            got.append(begin(connected, token=f"t{number}"))
        except Refused as error:
            refused.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 3)
    with connected() as connection:
        assert [item.result for item in operations.newest(connection, "flights")] == [None]


def test_a_dead_holder_is_taken_over_and_cannot_go_on(operator, deployed, connected) -> None:
    deployed("flights", desired="stopped")
    dead = begin(connected, "restart", resume=True)
    die(connected)
    assert operator.run(Request(StreamOperation.STOP, "flights", wait=False)).result == "done"
    with connected() as connection:
        assert [item.result for item in operations.newest(connection, "flights")] == ["failed", "done"][::-1]
    with pytest.raises(Refused, match="Lost the operation lock on stream flights"):
        Waiting(operator, dead).renew()


def test_what_a_dead_holder_had_stopped_runs_before_the_next_one_looks(deployed, connected) -> None:
    deployed("flights", desired="stopped")
    begin(connected, "reset", resume=True)
    die(connected)
    with connected() as connection:
        abandoned_operations.finish(connection)
        assert streams.get(connection, "flights").desired == "running"
        assert operations.newest(connection, "flights")[0].result == "failed"


@pytest.mark.parametrize(("operation", "kept"), [("reset", True), ("skip-batch", True), ("restart", False)])
def test_what_a_dead_holder_was_to_mend_still_waits_for_a_person(deployed, connected, operation, kept) -> None:
    deployed("flights", desired="stopped")
    with connected() as connection:
        streams.block(connection, "flights", {"reason": "poison", "what": "batch 7", "batch": 7})
        blocked = streams.get(connection, "flights").blocked
    begin(connected, operation, resume=True)
    die(connected)
    with connected() as connection:
        abandoned_operations.finish(connection)
        row = streams.get(connection, "flights")
    assert row.desired == "running"
    assert row.blocked == (blocked if kept else None)


def test_a_holder_that_lives_is_not_abandoned_however_long_it_takes(deployed, connected) -> None:
    deployed("flights", desired="stopped")
    begin(connected, "restart", resume=True)
    with connected() as connection:
        connection.execute(text("UPDATE operations SET requested_at = now() - interval '1 hour'"))
        assert operations.abandoned(connection) == []
