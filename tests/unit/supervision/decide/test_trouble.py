from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.supervision.decide.health import State, Verdict
from lakeward.supervision.decide.trouble import of_their_own


@pytest.fixture
def incidents(make):
    def run(state, *, since_s=3600.0, recorded=None, explained=(), attempts=1, told=()):
        stream = make.stream(state=str(recorded or state), since=make.now - timedelta(seconds=since_s))
        return of_their_own(
            [stream], {"flights": Verdict(state, "why")}, make.now,
            explained=dict.fromkeys(explained, "Kafka"), attempts={"flights": attempts},
            reported=told,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("state", [State.BLOCKED, State.STALLED, State.UNKNOWN])
def test_trouble_is_an_incident_at_once(incidents, state) -> None:
    assert incidents(state, since_s=0.0) == {"flights": f"Stream flights is {state}: why"}


@pytest.mark.parametrize("state", [State.HEALTHY, State.LAGGING, State.STARTING, State.STOPPED])
def test_the_rest_is_none(incidents, state) -> None:
    assert incidents(state) == {}


def test_a_restart_is_one_only_when_it_lasts_or_goes_in_circles(incidents) -> None:
    assert incidents(State.RESTARTING, since_s=59.0) == {}
    assert incidents(State.RESTARTING, recorded=State.HEALTHY) == {}
    assert incidents(State.RESTARTING, since_s=61.0) != {}
    assert incidents(State.RESTARTING, since_s=5.0, attempts=3) != {}


def test_being_restarted_is_not_the_end_of_an_incident_that_is_open(incidents) -> None:
    assert incidents(State.RESTARTING, recorded=State.STALLED, told=["flights"]) != {}
    assert incidents(State.RESTARTING, since_s=59.0, told=["flights"]) != {}
    assert incidents(State.HEALTHY, told=["flights"]) == {}


def test_who_only_shows_the_trouble_of_a_dependency_is_no_incident_but_a_block_is(incidents) -> None:
    assert incidents(State.STALLED, explained=["flights"]) == {}
    assert incidents(State.BLOCKED, explained=["flights"]) != {}
