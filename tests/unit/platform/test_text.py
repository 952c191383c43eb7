from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakeward.platform.text import count, listed, minute, moment, rfc3339, size, span

AT = datetime(2026, 3, 1, 13, 30, 5, 250_900, timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (None, "an unknown time"), (-3, "0 s"), (119.4, "119 s"), (120, "2 min"), (timedelta(minutes=5), "5 min"),
        (7500, "2 h 5 min"), (timedelta(hours=3), "3 h"), (timedelta(days=3), "3 days"),
    ],
)  # fmt: skip
def test_a_span_has_one_unit_or_two_where_it_matters(length: timedelta | float | None, text: str) -> None:
    assert span(length) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (128 << 20, "128 MB"), (3.2 * (1 << 20), "3.2 MB"),
        (7 << 40, "7.0 TB"),
    ],
)  # fmt: skip
def test_a_size_has_the_units_of_spec_files(number: float | None, text: str) -> None:
    assert size(number) == text


def test_counts_and_lists() -> None:
    assert [count(1, "file"), count(1234, "file"), count(None, "file")] == [
        "1 file", "1,234 files", "an unknown number of files",
    ]  # fmt: skip
    assert [listed(["a"]), listed(["a", "b"]), listed(list("abcdef"), most=3)] == ["a", "a and b", "a, b and 4 more"]


def test_times_are_in_utc_whatever_zone_they_came_in() -> None:
    assert (moment(AT), minute(AT)) == ("2026-03-01 12:30:05 UTC", "2026-03-01 12:30 UTC")
    assert (rfc3339(AT), rfc3339(AT, "seconds")) == ("2026-03-01T12:30:05.250Z", "2026-03-01T12:30:05Z")
    assert moment(AT.astimezone(UTC).replace(tzinfo=None)) == moment(AT), "one without a zone is in UTC"
