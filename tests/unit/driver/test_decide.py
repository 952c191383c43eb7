"""What the control loop does next."""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.driver.decide import Action, Drain, Exit, FinalizeQuery, Finish, ObservedQuery, Start, decide
from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.spec.python.packages import digest_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def want(*streams: str, generation: int = 1, later: tuple[str, ...] = (), fenced: bool = False) -> DesiredState:
    run = {name: Assignment(name, generation, {}, f"/ck/{name}") for name in streams}
    return DesiredState(NOW, run, frozenset(later), frozenset([*streams, *later]), fenced)


def act(
    picture: DesiredState | None, *, ending: bool = False, waiting: tuple[str, ...] = (), **seen: ObservedQuery
) -> list[Action]:
    return decide(picture, seen, ending=ending, waiting=frozenset(waiting))


def test_wanted_streams_start() -> None:
    assert [action.assignment.stream for action in act(want("b", "a")) if isinstance(action, Start)] == ["a", "b"]


def test_a_running_stream_is_left_alone() -> None:
    assert act(want("a"), a=ObservedQuery(1)) == []


def test_a_newer_launch_ends_everything_at_once() -> None:
    [action] = act(want("a", fenced=True), a=ObservedQuery(1))
    assert isinstance(action, Exit)
    assert action.code == 75


def test_a_stream_no_longer_wanted_drains_before_it_stops() -> None:
    assert [type(each) for each in act(want("b"), a=ObservedQuery(1), b=ObservedQuery(1))] == [Drain]
    assert act(want("b"), a=ObservedQuery(1, draining=True), b=ObservedQuery(1)) == []
    assert act(want("b"), a=ObservedQuery(1, draining=True, drained=True), b=ObservedQuery(1)) == [Finish("a")]


def test_a_batch_that_never_ends_is_cut_in_the_end() -> None:
    assert act(want("b"), a=ObservedQuery(1, draining=True, overdue=True), b=ObservedQuery(1)) == [Finish("a")]


def test_what_writes_all_the_time_stops_at_once_without_its_lease() -> None:
    hop = ObservedQuery(1, exact=False, unbatched=True, leased=False)
    assert act(want("a"), a=hop) == [Finish("a")]
    assert act(want("a"), a=ObservedQuery(1, exact=False, unbatched=True, leased=False, draining=True)) == [Finish("a")]
    assert act(want("a"), a=ObservedQuery(1, exact=False, unbatched=True)) == []
    assert [
        type(each) for each in act(want("b"), a=ObservedQuery(1, exact=False, unbatched=True), b=ObservedQuery(1))
    ] == [Drain]


def test_a_new_generation_drains_the_old_one_first() -> None:
    [action] = act(want("a", generation=2), a=ObservedQuery(1))
    assert isinstance(action, Drain)
    assert "generation 2" in action.why


def test_a_query_that_ended_is_buried_and_not_started_in_the_same_turn() -> None:
    assert act(want("a"), a=ObservedQuery(1, active=False)) == [FinalizeQuery("a")]


def test_streams_in_back_off_keep_the_driver_alive() -> None:
    assert act(want(later=("a",))) == []
    assert act(want("a"), waiting=("a",)) == []


def test_nothing_to_run_ends_the_driver() -> None:
    [action] = act(want())
    assert isinstance(action, Exit)
    assert action.code == 0


def test_without_the_registry_running_streams_land_on() -> None:
    assert act(None, a=ObservedQuery(1)) == []
    assert act(None) == []


def test_without_a_lease_only_sinks_without_a_position_stop() -> None:
    [action] = act(
        want("a", "b"), a=ObservedQuery(1, exact=False, leased=False), b=ObservedQuery(1, exact=True, leased=False)
    )
    assert isinstance(action, Drain)
    assert action.stream == "a"


def test_a_changed_reference_makes_the_plan_again() -> None:
    [action] = act(want("a"), a=ObservedQuery(1, stale=True))
    assert isinstance(action, Drain)
    assert "reference" in action.why


def test_asked_to_end_everything_drains_then_the_driver_ends() -> None:
    assert [type(each) for each in act(want("a"), ending=True, a=ObservedQuery(1))] == [Drain]
    assert act(want("a"), ending=True, a=ObservedQuery(1, draining=True)) == []
    [action] = act(want("a"), ending=True)
    assert isinstance(action, Exit)
    assert action.code == 0


def test_what_needs_packages_that_no_stream_here_has_any_more_gets_a_new_process() -> None:
    def turn(packages: str | None, needs: dict[str, list[str]], **seen: ObservedQuery) -> list[Action]:
        run = {name: Assignment(name, 2, {"packages": lines}, name) for name, lines in needs.items()}
        return decide(DesiredState(NOW, run, hosted=frozenset(run)), seen, ending=False, packages=packages)

    old, new = digest_of(["a==1"]), {"a": ["a==2"], "b": []}
    assert [type(each) for each in turn(None, new)] == [Start, Start]
    assert [type(each) for each in turn(digest_of(["a==2"]), new)] == [Start, Start]
    drained = turn(old, new, a=ObservedQuery(1), b=ObservedQuery(2))
    assert [type(each) for each in drained] == [Drain, Drain], "also the one that needs none: its process goes"
    [end] = turn(old, new)
    assert isinstance(end, Exit)
    assert end.code == 0
    kept = turn(old, {**new, "b": ["a==1"]}, b=ObservedQuery(2))
    assert [type(each) for each in kept] == [Start], "b needs what is here: that a does not is told by its start"
