"""What whoever asked for a run does next, and what wakes a process that is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.quality.runs.following import BEGUN_WITHIN_S, GRACE_S, START, TAKEN_WITHIN_S, Step, decide
from lakeward.registry.check_runs import CLAIMS, Run

REQUESTED = Run(
    id=1, state="asked", claim=0, owner=None, waited_s=1, remaining_s=1799, expired_s=None, told=[], answer=None
)  # fmt: skip
AT_WORK = replace(REQUESTED, state="working", claim=1, owner="checker host:1")


@pytest.mark.parametrize(
    ("run", "served", "step"),
    [
        (REQUESTED, True, Step.WAIT),
        (REQUESTED, False, Step.TAKE),
        (replace(REQUESTED, waited_s=BEGUN_WITHIN_S + 1), True, Step.TAKE),
        (AT_WORK, True, Step.WAIT),
        (replace(AT_WORK, waited_s=600), False, Step.WAIT),  # its heartbeat says that it lives
        (replace(AT_WORK, expired_s=1), True, Step.WAIT),  # a checker that lives is faster
        (replace(AT_WORK, expired_s=TAKEN_WITHIN_S + 1), True, Step.TAKE),
        (replace(AT_WORK, expired_s=1), False, Step.TAKE),
        (replace(AT_WORK, claim=CLAIMS, expired_s=60), False, Step.LOST),
        (replace(REQUESTED, claim=CLAIMS), True, Step.LOST),  # given back for the last time
        (replace(REQUESTED, remaining_s=-1), True, Step.LATE),
        (replace(AT_WORK, remaining_s=-1), True, Step.WAIT),  # it says itself that its time is over
        (replace(AT_WORK, remaining_s=-GRACE_S - 1), True, Step.LATE),
        (replace(AT_WORK, state="done", remaining_s=-500, answer={"results": []}), False, Step.ANSWERED),
        (None, True, Step.LOST),
    ],
)
def test_the_next_step(run: Run | None, served: bool, step: Step) -> None:
    assert decide(run, served).step is step


@pytest.mark.parametrize(
    "run", [replace(REQUESTED, waited_s=BEGUN_WITHIN_S + 1), replace(AT_WORK, expired_s=TAKEN_WITHIN_S + 1)]
)
def test_beside_a_live_checker_a_starved_machine_starts_no_process_of_its_own_so_soon(run: Run) -> None:
    def longer(seconds: float) -> float:
        return 4.0 * seconds

    assert decide(run, True, longer).step is Step.WAIT
    late = replace(run, waited_s=4 * BEGUN_WITHIN_S + 1, expired_s=run.expired_s and 4 * TAKEN_WITHIN_S + 1)
    assert decide(late, True, longer).step is Step.TAKE
    assert decide(run, False, longer).step is Step.TAKE, "nobody else does it"


def test_without_a_checker_one_line_says_what_it_costs_and_how_to_have_one() -> None:
    why = decide(REQUESTED, served=False).why
    assert "no checker is up" in why and "slower" in why and START in why
    died = decide(replace(AT_WORK, expired_s=3), served=False).why
    assert died.startswith("checker host:1 died during this run")
