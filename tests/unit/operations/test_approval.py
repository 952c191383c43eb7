"""What needs a person's approval has it, for just this plan; what failed half way leaves the stream as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Approval, Outcome, Plan, Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.stream import OnStream
from lakeward.platform.errors import Fenced, Refused, SpecError
from lakeward.registry import operations, streams
from lakeward.supervision.startup_grace import StartupGracePeriod

ASKED = Request(StreamOperation.RESET, "flights", comment="old news", approval=Approval("bob", "0 to 3"))
REASON = {"reason": "poison", "what": "cast", "why": "", "next": "", "batch": 3}


class Failing(OnStream[Plan]):
    """Finds that a driver nobody knew of has landed meanwhile. Its plan is another one after `moves` plans."""

    name = StreamOperation.RESET.value
    needs_comment = True
    needs_approval = True
    moves = 100

    def plan(self) -> Plan:
        self.moves -= 1
        end = 3 if self.moves >= 0 else 900
        return Plan(f"skip {end} records", key=f"0 to {end}", drains=(self.stream,))

    def apply(self, plan: Plan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            assert streams.get(connection, self.stream).desired == "stopped"
        raise Fenced("The position of stream flights moved meanwhile")


@pytest.fixture
def runner(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(
        StartupGracePeriod, "answered", lambda self, server_up_s: None
    )  # the test's server has only just started
    return Runner(connected, runtime, author="ada", holder="test", backend=backend, timeout_s=60.0)


def test_an_approval_is_for_one_plan_and_never_without_a_reason(runner, deployed) -> None:
    deployed("flights", desired="stopped")
    with pytest.raises(SpecError, match="The reset of stream flights needs a comment"):
        runner.run(Failing(runner, replace(ASKED, comment="  ")))
    with pytest.raises(Refused, match="needs a person's approval"):
        runner.run(Failing(runner, replace(ASKED, approval=None)))
    with pytest.raises(Refused, match="is not the plan that bob approved") as moved:
        runner.run(Failing(runner, replace(ASKED, approval=Approval("bob", "0 to 900"))))
    assert "skip 3 records" in moved.value.why


def blocked(connected) -> None:
    with connected() as connection:
        streams.block(connection, "flights", REASON)


def as_it_was(connected) -> None:
    with connected() as connection:
        row = streams.get(connection, "flights")
        asked = operations.newest(connection, "flights")[0]
    assert (row.desired, row.blocked) == ("running", {**REASON, "at": row.blocked["at"]})
    assert asked.params["resume"] is True


def test_a_move_that_failed_leaves_the_stream_wanted_and_blocked_as_it_was(runner, deployed, connected) -> None:
    deployed("flights", desired="running")
    blocked(connected)
    with pytest.raises(Fenced):
        runner.run(Failing(runner, ASKED))
    as_it_was(connected)


def test_what_moved_until_the_stream_stood_still_is_not_what_was_approved(runner, deployed, connected) -> None:
    deployed("flights", desired="running")
    blocked(connected)
    operation = Failing(runner, ASKED)
    operation.moves = 1
    with pytest.raises(Refused, match="is not the plan that bob approved") as moved:
        runner.run(operation)
    assert "skip 900 records" in moved.value.why
    as_it_was(connected)
