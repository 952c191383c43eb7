"""Which late records were dropped, and which were kept: split by the generation of their batch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.registry import generations
from lakeward.supervision.report.late import LateRecords, split, words

SINCE = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "table"),
    [
        ({}, None),
        ({"late": None}, None),
        ({"late": {"table": "nyc.late"}}, "nyc.late"),
        ({"quarantine": {"table": "nyc.bad"}}, None),
    ],
)
def test_a_generation_keeps_late_records_if_it_names_a_table_for_them(spec: dict[str, Any], table: str | None) -> None:
    assert generations.late_table(spec) == table


@pytest.mark.parametrize(
    ("recorded", "table", "dropped", "kept"),
    [
        (None, None, None, None),
        (None, "nyc.late", None, None),
        (0, None, 0, 0),
        (3, None, 3, 0),
        (3, "nyc.late", 0, 3),
    ],
)
def test_the_recorded_number_is_of_one_kind(
    recorded: int | None, table: str | None, dropped: int | None, kept: int | None
) -> None:
    assert split(recorded, table) == {"late_dropped": dropped, "late_kept": kept}


def test_the_words_name_the_tables_and_what_was_dropped() -> None:
    kept, both = LateRecords(1200, SINCE, ("nyc.late",)), LateRecords(2, SINCE, ("nyc.a", "nyc.b"))
    assert words(None, None) == words(LateRecords(), LateRecords()) == ""
    assert words(LateRecords(3, SINCE), None) == "3 dropped"
    assert words(LateRecords(), kept) == "1,200 kept in nyc.late"
    assert words(LateRecords(3, SINCE), both) == "2 kept in nyc.a and nyc.b, 3 dropped"


def test_the_tables_of_all_generations_are_those_of_their_specs(connected: Any, deployed: Any) -> None:
    deployed("flights")
    late = {2: {"table": "nyc.late"}, 3: None, 4: {"table": "nyc.x"}}
    with connected() as connection:
        for number, table in late.items():
            generations.add(
                connection, stream="flights", generation=number, spec={"late": table}, digest=str(number), sql=None,
                code={}, versions={}, author="test", checkpoint="c",
            )  # fmt: skip
        assert generations.late_tables(connection, "flights") == {2: "nyc.late", 4: "nyc.x"}
        assert generations.late_tables(connection, "other") == {}
