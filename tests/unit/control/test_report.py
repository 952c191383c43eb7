from __future__ import annotations

import pytest

from lakeward.control import look, report
from lakeward.registry import observations, restarts, streams
from lakeward.streams.health import State, Verdict


@pytest.fixture
def told(connected, deployed):
    """The block about `flights`, as things stand."""
    deployed("flights")

    def make(found=()):
        with connected() as connection:
            facts = look.read(connection)
            return report.block(facts, list(found), streams.get(connection, "flights"))

    return make


def test_the_lines_stand_in_the_same_order_whatever_is_known(told) -> None:
    words = [
        "STARTING",
        "Data",
        "Landed",
        "Waiting",
        "Rates",
        "State",
        "Restarts",
        "Failure",
        "Identity",
        "Logs",
        "Next",
    ]
    assert [line.split(" ")[0].rstrip(":") for line in told().lines] == words


def test_line_two_answers_whether_data_is_lost(told, connected) -> None:
    with connected() as connection:
        observations.record(connection, "flights", lag_records=1234, query_state="running")
    assert "nothing is lost" in told().lines[1]
    assert "1,234 records wait" in told().lines[1]
    with connected() as connection:
        reason = {"reason": "rolled-back", "what": "the table was rolled back", "why": "rows of seq 7 to 9 are gone"}
        streams.block(connection, "flights", {**reason, "next": "lakeward tables restore nyc.flights"})
    found = told()
    assert "DATA IS LOST FROM THE TABLE" in found.lines[1]
    assert found.trouble
    assert found.lines[-1] == "Next: lakeward tables restore nyc.flights"


def test_progress_is_told_in_numbers(told, connected) -> None:
    progress = {
        "inputRowsPerSecond": 1500.4,
        "processedRowsPerSecond": 20000.0,
        "durationMs": {"triggerExecution": 1250},
        "stateOperators": [{"numRowsTotal": 1200, "numRowsDroppedByWatermark": 3}],
        "eventTime": {"watermark": "2013-01-01T05:00:00.000Z"},
    }
    with connected() as connection:
        observations.record(connection, "flights", progress=progress)
    lines = told().lines
    assert "Rates: 1,500 records/s arrive, 20,000 records/s are processed, the last batch took 1.2 s" in lines
    assert "State: 1,200 rows kept, 3 late rows dropped, watermark 2013-01-01T05:00:00.000Z" in lines


def test_failures_are_told_with_what_was_tried(told, connected) -> None:
    with connected() as connection:
        restarts.record(
            connection, driver="nyc", stream=None, failure_class="dependency", error="Connection refused",
            attempt=3, delay=None,
        )  # fmt: skip
    lines = told().lines
    assert any(line.startswith("Failure: dependency, ") and "Connection refused" in line for line in lines)
    assert "Restarts: 1 in 24 h, no further attempt by itself" in lines


def test_trouble_that_is_over_is_told_all_the_same(told, connected) -> None:
    now = told()
    with connected() as connection:
        facts = look.read(connection)
        row = streams.get(connection, "flights")
        found = report.block(facts, [], row, "At 03:00:00 UTC it was STALLED: no batch for 6 min")
    assert not now.trouble
    assert found.trouble
    assert found.lines[0].startswith("At 03:00:00 UTC it was STALLED: no batch for 6 min; by now it is STARTING since")


def tell(connection, state: State) -> None:
    report.told(connection, report.Report("flights", Verdict(state, "because"), ("line one",)))


def test_trouble_is_told_once_its_end_once_and_a_worsening_again(connected, deployed) -> None:
    deployed("flights")

    def due() -> list[str]:
        with connected() as connection:
            return [item.run.split("__")[1] for item in report.due(connection)]

    def becomes(state: State) -> None:
        with connected() as connection:
            streams.set_state(connection, "flights", state.value, "because")

    becomes(State.HEALTHY)
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


def test_the_name_of_a_run_is_the_same_for_the_same_state(connected, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        streams.set_state(connection, "flights", "stalled", "because")
    with connected() as connection:
        streams.set_state(connection, "flights", "stalled", "another reason")
        (first,) = report.due(connection)
        (second,) = report.due(connection)
    assert first == second
