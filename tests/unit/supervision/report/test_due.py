from __future__ import annotations

from datetime import datetime

import pytest

from lakeward.platform.errors import SpecError
from lakeward.registry import streams
from lakeward.supervision import report
from lakeward.supervision.decide.health import State, Verdict


@pytest.fixture
def told(connected, runtime, backend, deployed):
    """The report about `flights`, as things stand."""
    deployed("flights")
    return lambda found=None: report.of_stream(connected, runtime, "flights", found, backend)


def test_a_report_of_a_stream_that_is_down_is_trouble(told, connected) -> None:
    assert not told().trouble
    with connected() as connection:
        reason = {"reason": "rolled-back", "what": "the table was rolled back", "why": "rows of seq 7 to 9 are gone"}
        streams.block(connection, "flights", {**reason, "next": "lakeward streams audit flights"})
    found = told()
    assert found.trouble
    assert found.lines[1].startswith("data lost?   YES: ")
    assert "rows of seq 7 to 9 are gone" in found.lines[1]
    assert any(line == "next         lakeward streams audit flights" for line in found.lines)


def test_a_report_works_with_broker_and_catalog_away_and_names_them(told) -> None:
    lines = "\n".join(told().lines)
    assert "data lost?   " in lines


def test_trouble_that_is_over_is_reported_all_the_same(told) -> None:
    found = told("At 03:00:00 UTC it was STALLED: no batch for 6 min")
    assert found.trouble
    assert found.lines[0].startswith("flights: At 03:00:00 UTC it was STALLED: no batch for 6 min; now it is STARTING")


def test_an_unknown_stream_is_refused(connected, runtime, backend, deployed) -> None:
    deployed("flights")
    with pytest.raises(SpecError, match="fligths"):
        report.of_stream(connected, runtime, "fligths", backend=backend)


def test_a_second_block_is_reported_although_the_first_was(told, connected) -> None:
    def becomes(state: State) -> list[str]:
        with connected() as connection:
            streams.set_state(connection, "flights", state.value, "because")
        with connected() as connection:
            return [item.run for item in report.due(connection)]

    def blocked(reason: str) -> str:
        with connected() as connection:
            streams.block(connection, "flights", {"reason": reason, "what": reason})
            at = datetime.fromisoformat(streams.get(connection, "flights").blocked["at"])
        return f"report__blocked__{at:%Y-%m-%dT%H-%M-%S}"

    assert [blocked("gap")] == becomes(State.BLOCKED)
    with connected() as connection:
        report.record(connection, told())
    assert becomes(State.BLOCKED) == []
    with connected() as connection:
        streams.set_desired(connection, ["flights"], "running")
    assert becomes(State.BLOCKED) == []  # a person has just started it: no other block
    assert becomes(State.RESTARTING) == []
    assert [blocked("overlap")] == becomes(State.BLOCKED)


def tell(connection, state: State) -> None:
    report.record(connection, report.Report("flights", Verdict(state, "because"), ("line one",)))


def test_trouble_is_reported_once_its_end_once_and_a_worsening_again(connected, deployed) -> None:
    deployed("flights")

    def due() -> list[str]:
        with connected() as connection:
            return [item.run.split("__")[1] for item in report.due(connection)]

    def becomes(state: State) -> None:
        with connected() as connection:
            streams.set_state(connection, "flights", state.value, "because")

    becomes(State.HEALTHY)
    assert due() == ["healthy"]  # the first: its Dag has no run yet
    with connected() as connection:
        tell(connection, State.HEALTHY)
    becomes(State.LAGGING)
    assert due() == []
    becomes(State.RESTARTING)
    assert due() == ["restarting"]
    assert due() == ["restarting"]  # asked for twice it has the same name: one run
    with connected() as connection:
        tell(connection, State.RESTARTING)
    assert due() == []
    becomes(State.STALLED)
    assert due() == []  # the same incident
    becomes(State.BLOCKED)
    assert due() == ["blocked"]
    with connected() as connection:
        tell(connection, State.BLOCKED)
    becomes(State.STARTING)
    assert due() == []  # not yet proven
    becomes(State.HEALTHY)
    assert due() == ["healthy"]
    with connected() as connection:
        tell(connection, State.HEALTHY)
    assert due() == []


def test_a_stream_that_was_started_or_stopped_is_reported(connected, deployed) -> None:
    deployed("flights")
    for state in (State.STOPPED, State.HEALTHY, State.STOPPED):
        with connected() as connection:
            streams.set_state(connection, "flights", state.value, "because")
        with connected() as connection:
            assert [item.run.split("__")[1] for item in report.due(connection)] == [state.value]
            tell(connection, state)
    with connected() as connection:
        assert report.due(connection) == []


def test_first_reports_of_many_streams_come_a_few_at_a_time(connected, deployed) -> None:
    names = [f"s{n:02}" for n in range(25)]
    deployed(*names)
    with connected() as connection:
        for name in names:
            streams.set_state(connection, name, "stopped", "never started")
        streams.set_state(connection, "s24", "stalled", "because")
    with connected() as connection:
        assert [item.stream for item in report.due(connection)] == [*names[:20], "s24"]


def test_the_name_of_a_run_is_the_same_for_the_same_state(connected, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        streams.set_state(connection, "flights", "stalled", "because")
    with connected() as connection:
        streams.set_state(connection, "flights", "stalled", "another reason")
        (first,) = report.due(connection)
        (second,) = report.due(connection)
    assert first == second
