"""What a sample row of a failed check has, and how arguments compare with values of rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

from lakeward.quality.engine.bridge.checks import _as_collected
from lakeward.quality.engine.bridge.results import columns_of, shown

WIDE = [f"c{index}" for index in range(300)] + ["deep", "_kafka_offset"]


def test_a_sample_of_a_wide_table_has_the_first_columns_those_of_the_check_and_the_position() -> None:
    about = columns_of({"column_A": "`c250`", "column_B": "deep.at", "column_list": ["c299"]})
    assert shown(WIDE, about) == [*WIDE[:20], "c250", "c299", "deep", "_kafka_offset"]
    assert shown(WIDE[:50], columns_of({})) == WIDE[:50], "other tables keep whole rows"


def test_times_of_arguments_have_no_zone_as_values_of_rows_have_none() -> None:
    noon = datetime(2026, 1, 1, 12)
    assert _as_collected(datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))) == noon
    assert _as_collected([noon.replace(tzinfo=UTC), date(2026, 1, 1), 5]) == [noon, date(2026, 1, 1), 5]
