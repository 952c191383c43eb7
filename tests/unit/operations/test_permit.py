"""What needs a person's yes has it, for just this plan; what failed half way leaves the stream as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.operations.move_position import Moving
from lakeward.operations.request import Approval, Operation, Plan, Request
from lakeward.operations.runner import Operator, permit
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import Fenced, Refused, SpecError
from lakeward.registry import operations, streams

PLAN = Plan("skip 3 records", key="0 to 3")
ASKED = Request(Operation.RESET, "flights", comment="old news", approval=Approval("bob", "0 to 3"))


class Failing(Moving[Plan]):
    """Finds that a driver nobody knew of has landed meanwhile."""

    operation = Operation.RESET

    def plan(self) -> Plan:
        return PLAN

    def move(self, plan: Plan, waiting: Waiting) -> str:
        raise Fenced("The position of stream flights moved meanwhile")


@pytest.fixture
def operator(connected, runtime, backend):
    return Operator(connected, runtime, author="ada", holder="test", backend=backend)


def test_a_yes_is_for_one_plan_and_never_without_a_reason(operator) -> None:
    act = Failing(operator, ASKED)
    permit(act, ASKED, PLAN)
    with pytest.raises(SpecError, match="needs a comment"):
        permit(act, replace(ASKED, comment="  "), PLAN)
    with pytest.raises(Refused, match="approval missing"):
        permit(act, replace(ASKED, approval=None), PLAN)
    with pytest.raises(Refused, match="is not what bob approved") as moved:
        permit(act, ASKED, Plan("skip 900 records", key="0 to 900"))
    assert "skip 900 records" in moved.value.why


def test_a_move_that_failed_leaves_the_stream_wanted_and_blocked_as_it_was(operator, deployed, connected) -> None:
    deployed("flights", desired="running")
    reason = {"reason": "poison", "what": "cast", "why": "", "next": "", "batch": 3}
    with connected() as connection:
        streams.block(connection, "flights", reason)
        ticket = operations.begin(connection, "flights", "reset", author="ada", holder="test", token="t")
    with pytest.raises(Fenced):
        Failing(operator, ASKED).do(PLAN, Waiting(operator, ticket))
    with connected() as connection:
        row = streams.get(connection, "flights")
        asked = operations.newest(connection, "flights")[0]
    assert (row.desired, row.blocked) == ("running", {**reason, "at": row.blocked["at"]})
    assert asked["params"]["resume"] is True
