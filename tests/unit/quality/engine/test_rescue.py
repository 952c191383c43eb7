"""A lost session or a plan without end costs no other check its verdict, and none a false pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from lakeward.quality.engine.rescue import Attempt, rescued
from lakeward.quality.engine.timeouts import DOWN_S, GRACE_S, Progress, Watch
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import State
from lakeward.spec.model.suite import Expectation

ASKED = [ConfiguredCheck(name, Expectation(type="expect_column_to_exist"), "increment") for name in "abc"]


@dataclass
class Server:
    """A session, and checks of which some never end their plan, and some kill the server.

    Attributes:
        endless: checks whose plan does not end.
        kills: how often the server goes away while it computes.
    """

    endless: str = ""
    kills: int = 0
    alive: bool = True
    renewed: int = 0
    computed: list[str] = field(default_factory=list)

    def answers(self) -> bool:
        return self.alive

    def renew(self) -> None:
        self.renewed, self.alive = self.renewed + 1, True

    def compute(self, part: Sequence[ConfiguredCheck]) -> Attempt:
        assert self.alive, "a lost session was used again"
        self.computed.append("".join(each.id for each in part))
        watch = Watch(0, 900, 120, Progress())
        if self.kills:
            self.kills -= 1
            self.alive = False
            return Attempt({part[0].id: part[0].blank(State.ERROR, "gone")}, watch, ConnectionError("gone"))
        if any(each.id in self.endless for each in part):
            self.alive, watch.planning, watch.given_up = False, True, True
            return Attempt({}, watch, ConnectionError("closed"))
        return Attempt({each.id: each.blank(State.PASS) for each in part}, watch)


def states(server: Server) -> dict[str, State]:
    return {name: check.state for name, check in rescued(ASKED, server, server.compute).items()}


def test_without_trouble_nothing_is_computed_twice() -> None:
    server = Server()
    assert set(states(server).values()) == {State.PASS}
    assert (server.computed, server.renewed) == (["abc"], 0)


def test_checks_whose_server_went_away_are_computed_once_more() -> None:
    server = Server(kills=1)
    assert set(states(server).values()) == {State.PASS}
    assert (server.computed, server.renewed) == (["abc", "abc"], 1)


def test_a_server_that_goes_away_twice_is_an_error_and_the_session_is_left_usable() -> None:
    server = Server(kills=2)
    with pytest.raises(ConnectionError):
        states(server)
    assert server.alive and server.renewed == 2


@pytest.mark.parametrize("endless", ["a", "b", "ac", "abc"])
def test_a_plan_that_does_not_end_is_the_error_of_its_check_alone(endless: str) -> None:
    server = Server(endless=endless)
    assert states(server) == {name: State.ERROR if name in endless else State.PASS for name in "abc"}
    assert server.alive and server.computed == ["abc", "a", "b", "c"]


def test_an_error_of_one_check_is_no_reason_to_compute_it_again() -> None:
    server = Server()

    def compute(part: Sequence[ConfiguredCheck]) -> Attempt:
        made = server.compute(part)
        return Attempt({**made.results, "b": part[1].blank(State.ERROR, "no such column")}, made.watch)

    assert rescued(ASKED, server, compute)["b"].error == "no such column"
    assert (server.computed, server.renewed) == (["abc"], 0)


def look(watch: Watch, now: float, outstanding: bool = True, reachable: bool = True) -> str:
    return watch.look(now, reachable, lambda: outstanding)


def watching(last: float = 0.0) -> Watch:
    progress = Progress()
    progress.last = last
    return Watch(0, 900, 120, progress)


def test_a_statement_that_is_planned_for_long_is_interrupted_and_then_given_up() -> None:
    watch = watching()
    assert look(watch, 119) == "" and not watch.planning
    assert look(watch, 120) == "" and watch.planning
    assert look(watch, 120 + GRACE_S) == "give up"
    assert look(watch, 121 + GRACE_S) == "", "once"


def test_a_statement_that_runs_or_moves_is_not_planned() -> None:
    watch = watching()
    watch.progress.report("o", running=True, done=False)
    assert look(watch, watch.progress.last + 500) == "" and not watch.planning
    watch.progress.report("o", running=False, done=True)
    assert look(watch, watch.progress.last + 119) == "" and not watch.planning


def test_a_process_that_waits_for_no_statement_is_left_alone() -> None:
    watch = watching()
    assert look(watch, 120, outstanding=False) == "" and not watch.planning


def test_all_time_over_ends_what_cannot_be_interrupted_too() -> None:
    watch = watching(last=880)
    assert look(watch, 900, outstanding=False) == "" and watch.over and not watch.planning
    assert look(watch, 900 + GRACE_S, outstanding=False) == "give up"


def test_a_server_that_is_down_is_not_waited_for() -> None:
    watch = watching(last=50)
    assert look(watch, 60, reachable=False) == ""
    assert look(watch, 60 + DOWN_S, reachable=False) == "hurry"
    assert look(watch, 61 + DOWN_S) == ""
