"""Columns of the transform against columns of the table."""

from __future__ import annotations

import pytest

from lakeward.driver.schema import check
from lakeward.errors import SpecError


def test_equal_columns_in_any_order_fit() -> None:
    check("s", "ns.t", {"b": "int", "a": "string"}, {"a": "string", "b": "int"}, lambda name: False)


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    given = {"a": "string", "carrier_name": "string", "n": "bigint", "m": "int"}
    has = {"a": "string", "carrier": "string", "n": "int", "m": "bigint"}
    with pytest.raises(SpecError) as raised:
        check("flights", "nyc.flights", given, has, lambda name: name == "m")
    assert (
        raised.value.why == "not in the table: carrier_name; only in the table: carrier; n is BIGINT, the table has INT"
    )
    assert "nyc.flights" in raised.value.what
