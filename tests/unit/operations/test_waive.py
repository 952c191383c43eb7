"""A check is waived by the frame of every operation: not without a reason, and nothing is touched by a plan."""

from __future__ import annotations

import pytest

from lakeward.operations.request import Request
from lakeward.operations.runner import Runner
from lakeward.operations.waive import Unwaive, Waive
from lakeward.platform.errors import Refused, SpecError
from lakeward.registry import changes, waivers
from lakeward.spec.model.types import Duration


@pytest.fixture
def runner(connected, runtime, backend):
    return Runner(connected, runtime, author="ada", holder="test", backend=backend)


def waive(runner: Runner, comment: str) -> Waive:
    return Waive(runner, Request(Waive.name, "ns.t", comment), "c1", "nulls(a)", Duration("2h"))


def in_force(connected) -> list[str]:
    with connected() as connection:
        return [each.reason for each in waivers.in_force(connection, "ns.t")]


def test_a_waiver_needs_a_reason_and_a_plan_makes_none(runner, connected) -> None:
    with pytest.raises(SpecError, match=r"The waive of ns\.t needs a comment"):
        runner.run(waive(runner, " "))
    assert runner.dry_run(waive(runner, "known")).result == "skipped"
    assert in_force(connected) == []


def test_a_check_is_waived_and_that_is_ended_once(runner, connected) -> None:
    outcome = runner.run(waive(runner, "known"))
    assert outcome.detail.endswith("UTC by ada: known")
    assert (outcome.document["table"], outcome.document["check"]) == ("ns.t", "c1")
    assert in_force(connected) == ["known"]
    with connected() as connection:
        assert [each.change for each in changes.newest(connection, "table", "ns.t")] == ["waive"]
    end = Unwaive(runner, Request(Unwaive.name, "ns.t", "mended"), "c1", "nulls(a)")
    assert runner.run(end).detail.endswith("has ended")
    assert in_force(connected) == []
    with pytest.raises(Refused, match="no waiver"):
        runner.run(end)
