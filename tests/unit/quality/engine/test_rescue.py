"""A lost session or a plan without end costs no other check its verdict, and none a false pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from lakeward.quality.arguments import patterns
from lakeward.quality.engine.healing import Act, ServerFacts, decide
from lakeward.quality.engine.rescue import SLOW_READ, Attempt, rescued
from lakeward.quality.engine.suspects import Suspects
from lakeward.quality.engine.timeouts import DOWN_S, GRACE_S, Progress, Watch
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import State
from lakeward.spec.model.suite import Expectation

ASKED = [ConfiguredCheck(name, Expectation(type="expect_column_to_exist"), "increment") for name in "abc"]
QUERY = {"unexpected_rows_query": "SELECT 1 FROM {batch}"}
MIXED = [
    *ASKED,
    *(
        ConfiguredCheck(each, Expectation(type="unexpected_rows_expectation", kwargs=QUERY), "increment")
        for each in "xy"
    ),
]

ENDLESS_PATTERN = "(.*a){20}b"


@dataclass
class Server:
    """A session, and checks of which some never end their plan, some kill the server, and some take all time.

    Attributes:
        endless: checks whose plan does not end, and cannot be interrupted.
        deadly: checks that end the server.
        late: checks whose time is over.
        kills: how often the server goes away by itself while it computes.
        swallowed: whether Great Expectations makes an error of the check of a server that went away.
    """

    endless: str = ""
    deadly: str = ""
    late: str = ""
    kills: int = 0
    swallowed: bool = False
    alive: bool = True
    renewed: int = 0
    healed: int = 0
    suspects: Suspects = field(default_factory=Suspects)
    computed: list[str] = field(default_factory=list)
    limits: list[float | None] = field(default_factory=list)
    longer: list[float] = field(default_factory=list)
    slow_read: bool = False
    fatal: str = ""
    ending: bool = False
    ended: int = 0

    def answers(self) -> bool:
        return self.alive

    def renew(self) -> None:
        self.renewed += 1

    def wait(self, *, ending: bool) -> None:
        self.ended += ending
        self.alive, self.ending = True, False

    def heal(self) -> None:
        self.healed += 1

    def compute(self, part: Sequence[ConfiguredCheck], limit_s: float | None, longer: float) -> Attempt:
        assert self.alive, "a server that ended was not waited for"
        names = {each.id for each in part}
        self.computed.append("".join(each.id for each in part))
        self.limits.append(None if limit_s is None else round(limit_s))
        self.longer.append(longer)
        watch = Watch(0, 900, 20, Progress())
        if self.ending or names & set(self.fatal):
            self.ending = True
            words = "(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext."
            return Attempt({each.id: each.blank(State.ERROR, words) for each in part}, watch)
        if self.kills or names & set(self.deadly):
            self.kills -= bool(self.kills)
            self.alive = False
            if self.swallowed:
                return Attempt({each.id: each.blank(State.ERROR, "RPC") for each in part}, watch)
            return Attempt({}, watch, ConnectionError("gone"))
        if names & set(self.endless) or (self.slow_read and longer < SLOW_READ):
            self.alive, watch.planning, watch.given_up = False, True, True
            return Attempt({}, watch, ConnectionError("closed"))
        watch.over = bool(names & set(self.late))
        state = State.ERROR if watch.over else State.PASS
        return Attempt({each.id: each.blank(state) for each in part}, watch)


def states(server: Server, asked: Sequence[ConfiguredCheck] = ASKED) -> dict[str, State]:
    found = rescued("ns.t", asked, server, server.compute, 900)
    assert sorted(found) == [each.id for each in asked]
    return {name: check.state for name, check in found.items()}


def errors(server: Server, asked: Sequence[ConfiguredCheck] = ASKED) -> str:
    return "".join(name for name, state in sorted(states(server, asked).items()) if state is not State.PASS)


def test_without_trouble_nothing_is_computed_twice() -> None:
    server = Server()
    assert errors(server, MIXED) == ""
    assert (server.computed, server.renewed, server.healed) == (["abcxy"], 0, 0)


def test_checks_whose_server_went_away_are_computed_once_more() -> None:
    server = Server(kills=1)
    assert errors(server) == ""
    assert (server.computed, server.renewed, server.healed) == (["abc", "abc"], 1, 0)


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize("deadly", ["a", "b", "ac", "abc"])
def test_a_check_that_ends_the_server_is_an_error_alone(deadly: str, swallowed: bool) -> None:
    server = Server(deadly=deadly, swallowed=swallowed)
    assert errors(server) == deadly
    assert {check for _, check in server.suspects.harmful} == set(deadly)
    assert server.alive and server.computed == ["abc", "abc", "a", "b", "c"] and server.healed == 1


def test_a_server_that_goes_away_under_an_innocent_check_accuses_it_not() -> None:
    server = Server(kills=2)
    assert errors(server) == ""
    assert not server.suspects.harmful


@pytest.mark.parametrize("endless", ["a", "b", "ac", "abc"])
def test_a_plan_that_does_not_end_is_the_error_of_its_check_alone(endless: str) -> None:
    server = Server(endless=endless)
    assert errors(server) == endless
    assert server.alive and server.computed[0] == "abc" and server.healed == 1
    assert max(server.computed.count(each) for each in "abc") <= 2, "the first may show how long the read takes"


def test_a_read_whose_own_plan_takes_long_is_no_fault_of_its_checks() -> None:
    server = Server(slow_read=True)
    assert errors(server, MIXED) == ""
    assert server.computed == ["abcxy", "abc", "abc", "x", "y"]
    assert server.longer == [1, 1, SLOW_READ, SLOW_READ, SLOW_READ]
    assert errors(Server(slow_read=True), MIXED[3:]) == "", "queries alone"
    assert errors(Server(slow_read=True, endless="y"), MIXED) == "y"
    assert not server.suspects.harmful


def test_checks_without_text_of_a_person_stay_together() -> None:
    server = Server(endless="y")
    assert errors(server, MIXED) == "y"
    assert server.computed == ["abcxy", "abc", "x", "y"]


def test_a_check_whose_time_is_over_costs_the_others_their_verdict_no_more() -> None:
    server = Server(late="x")
    assert errors(server, MIXED) == "x"
    assert server.computed == ["abcxy", "abc", "x", "y"]
    assert server.limits == [None, 225, 225, 225], "half of the patience for all parts, of which each has half"
    server.computed.clear()
    assert errors(server, MIXED) == "x"
    assert server.computed == ["abcy", "x"], "the next run computes it alone, and last"


def test_what_harmed_the_server_is_not_computed_again_at_once() -> None:
    server = Server(endless="y")
    errors(server, MIXED)
    server.computed.clear()
    found = rescued("ns.t", MIXED, server, server.compute, 900)
    assert server.computed == ["abcx"] and "computed again after 10 min" in str(found["y"].error)
    server.suspects.harmful["ns.t", "y"] = ("it", 0.0)
    server.endless = ""
    server.computed.clear()
    assert errors(server, MIXED) == ""
    assert server.computed == ["abcx", "y"], "the time is over: alone, after the others"
    assert errors(Server(suspects=server.suspects), MIXED[:4]) == ""


def test_a_pattern_that_java_may_match_without_end_is_computed_after_the_others() -> None:
    kwargs = {"column": "n", "regex": ENDLESS_PATTERN}
    slow = ConfiguredCheck("s", Expectation(type="expect_column_values_to_match_regex", kwargs=kwargs), "increment")
    patterns.probe([ENDLESS_PATTERN])
    server = Server(late="s")
    assert errors(server, [*ASKED, slow]) == "s"
    assert server.computed == ["abc", "s"] and server.healed == 1
    assert server.limits == [None, 90] and "s" in {name for _, name in server.suspects.harmful}


def test_a_server_that_is_about_to_end_and_still_answers_costs_no_other_check_its_verdict() -> None:
    server = Server(fatal="y")
    assert errors(server, MIXED) == "y"
    assert server.ended >= 2 and server.renewed == server.ended, "its end was waited for"


def test_several_patterns_without_end_share_a_part_of_the_time_and_leave_no_thread_to_each_other() -> None:
    kind, kwargs = "expect_column_values_to_match_regex", {"regex": ENDLESS_PATTERN}
    slow = [
        ConfiguredCheck(name, Expectation(type=kind, kwargs={"column": name, **kwargs}), "increment") for name in "stu"
    ]
    patterns.probe([ENDLESS_PATTERN])
    server = Server(late="st")
    found = rescued("ns.t", [*ASKED, *slow], server, server.compute, 900)
    assert {name: check.state for name, check in found.items() if check.state is not State.PASS} == {
        "s": State.ERROR, "t": State.ERROR
    }  # fmt: skip
    assert server.computed == ["abc", "s", "t", "u"] and server.limits == [None, 90, 90, 90]
    assert server.healed == 3, "after each one that another follows, and at the end"
    assert "more than two million steps" in (found["s"].error or "")


def test_a_check_that_is_computed_alone_is_not_accused_of_a_server_that_went_away_once() -> None:
    server = Server(kills=1)
    server.suspects.suspect("ns.t", "a")
    assert errors(server, ASKED[:1]) == "" and server.computed == ["a", "a"]
    assert errors(Server(deadly="a", suspects=server.suspects), ASKED[:1]) == "a"


def test_an_error_of_one_check_is_no_reason_to_compute_it_again() -> None:
    server = Server()

    def compute(part: Sequence[ConfiguredCheck], limit_s: float | None, longer: float) -> Attempt:
        made = server.compute(part, limit_s, longer)
        return Attempt({**made.results, "b": part[1].blank(State.ERROR, "no such column")}, made.watch)

    assert rescued("ns.t", ASKED, server, compute, 900)["b"].error == "no such column"
    assert (server.computed, server.renewed) == (["abc"], 0)


@pytest.mark.parametrize(
    ("facts", "act"),
    [
        (ServerFacts(local=True, working=0, others=(), since_s=1), Act.LEAVE),
        (ServerFacts(local=True, working=1, others=(), since_s=1), Act.END),
        (ServerFacts(local=True, working=1, others=("compact of a.b",), since_s=1), Act.WAIT),
        (ServerFacts(local=True, working=1, others=("compact of a.b",), since_s=601), Act.END),
        (ServerFacts(local=False, working=0, others=(), since_s=1), Act.WARN),
    ],
)
def test_a_server_is_ended_only_if_it_works_on_what_was_given_up_and_nobody_uses_it(
    facts: ServerFacts, act: Act
) -> None:
    assert decide(facts) is act


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


def test_a_statement_on_a_closed_channel_means_a_lost_session_only_after_the_watcher_closed_it() -> None:
    from pyspark.errors import PySparkException

    closed = ValueError("Cannot invoke RPC on closed channel!")
    assert Attempt(watch=Watch(0.0, 1.0, 1.0, Progress(), given_up=True)).lost_session(closed)
    assert not Attempt(watch=Watch(0.0, 1.0, 1.0, Progress())).lost_session(closed)
    assert Attempt().lost_session(PySparkException("the session is gone"))


def test_a_busy_machine_gives_an_interrupted_statement_longer_to_end() -> None:
    watch = Watch(0.0, 1.0, 100.0, Progress(last=0.0), grace_s=4 * GRACE_S)
    acts = [watch.look(now, reachable=True, interrupt=lambda: True) for now in (2.0, 2.0 + GRACE_S, 3.0 + 4 * GRACE_S)]
    assert acts == ["", "", "give up"]
