"""A literal of a suite is a value of its column's type, exactly, or is refused with the valid form."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakeward.quality.arguments.literals import Unfit, literal


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        (1, "INT", 1),
        ("1", "int", 1),
        (1.0, "BIGINT", 1),
        (2**53 + 1, "BIGINT", 2**53 + 1),
        ("12.50", "DECIMAL(10,2)", Decimal("12.50")),
        (0.1, "DECIMAL(10,2)", Decimal("0.1")),
        (10**37, "DECIMAL(38,0)", Decimal(10**37)),
        (3, "DOUBLE", 3.0),
        ("1e300", "DOUBLE", 1e300),
        (".inf", "DOUBLE", math.inf),
        ("-Infinity", "FLOAT", -math.inf),
        (0.1, "FLOAT", 0.10000000149011612),
        ("01234", "STRING", "01234"),
        ("a", "VARCHAR(3)", "a"),
        ("true", "BOOLEAN", True),
        (False, "BOOLEAN", False),
        ("2026-01-01", "DATE", date(2026, 1, 1)),
        ("2026-1-1", "DATE", date(2026, 1, 1)),
        ("2026-01-01T00:00:00", "DATE", date(2026, 1, 1)),
        ("2026-01-01T13:00:00+01:00", "TIMESTAMP", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01 12:00:00", "TIMESTAMP", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01", "TIMESTAMP_NTZ", "2026-01-01T00:00:00"),
        ("x", "INTERVAL DAY", "x"),
        ("x", "", "x"),
    ],
)
def test_a_value_of_the_type_is_kept_exactly(written: Any, kind: str, value: Any) -> None:
    found = literal(written, kind)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("written", "kind", "words"),
    [
        ("n/a", "INT", "not a whole number (valid: 42)"),
        ("", "INT", "not a whole number"),
        (True, "INT", "true is not a whole number"),
        (1.5, "INT", "not a whole number"),
        (2**31, "INT", "outside of INT"),
        (".inf", "BIGINT", "not a whole number"),
        ("1_000", "BIGINT", "not a whole number"),
        ("12,50", "DECIMAL(10,2)", "not a number (valid: 12.50)"),
        (0.125, "DECIMAL(10,2)", "does not fit into DECIMAL(10,2)"),
        (10**9, "DECIMAL(10,2)", "does not fit"),
        (1.2345678901234568e22, "DECIMAL(38,0)", "in quotes, with all its digits"),
        ("1" * 39, "DECIMAL(38,0)", "more than 38 digits"),
        ("n/a", "DOUBLE", "not a number (valid: 1.5)"),
        (False, "DOUBLE", "false is not a number"),
        ("1e300", "FLOAT", "more than a FLOAT holds"),
        (1234, "STRING", "write it in quotes"),
        (True, "STRING", "true without quotes is true or false, not text"),
        (1, "BOOLEAN", "valid: true, false"),
        ("yes", "BOOLEAN", "valid: true, false"),
        ("2026-02-30", "DATE", "not a day (valid: 2026-12-31)"),
        (20260101, "DATE", "not a day"),
        ("20260101", "DATE", "not a day"),
        ("2026-01-01T12:00:00", "DATE", "has a time of day"),
        (1767225600, "TIMESTAMP", "not a time (valid: 2026-12-31T23:59:59Z)"),
        ("2026-01-01T25:00:00", "TIMESTAMP", "not a time"),
        ("2026-01-01T12:00:00Z", "TIMESTAMP_NTZ", "has a time zone"),
        ("a", "ARRAY<STRING>", "is one value"),
        (1, "STRUCT<A:INT>", "is one value"),
        (5, "BINARY", "not bytes"),
        ("0001-01-01T00:00:00+14:00", "TIMESTAMP", "is beyond what can be compared with TIMESTAMP"),
        ("9999-12-31T23:59:59-14:00", "TIMESTAMP", "is beyond what can be compared with TIMESTAMP"),
        (Decimal("sNaN"), "DOUBLE", "is beyond what can be compared with DOUBLE"),
    ],
)
def test_what_is_no_value_is_refused_with_the_valid_form(written: Any, kind: str, words: str) -> None:
    with pytest.raises(Unfit) as refused:
        literal(written, kind)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        (1.5, "INT", Decimal("1.5")),
        (2**31, "INT", 2**31),
        (2**70, "BIGINT", Decimal(2**70)),
        (0.125, "DECIMAL(10,2)", Decimal("0.125")),
        ("2026-01-01T12:00:00", "DATE", datetime(2026, 1, 1, 12, tzinfo=UTC)),
    ],
)
def test_a_bound_may_lie_between_or_beyond_the_values(written: Any, kind: str, value: Any) -> None:
    assert literal(written, kind, bound=True) == value


def test_nan_is_no_bound_and_may_be_a_member() -> None:
    assert math.isnan(literal(".nan", "DOUBLE"))
    with pytest.raises(Unfit, match="NaN is no bound"):
        literal(".nan", "DOUBLE", bound=True)
