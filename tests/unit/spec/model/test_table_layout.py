"""What can be written as an order of rows."""

from __future__ import annotations

import pytest

from lakeward.spec.model.table_layout import SortOrder


@pytest.mark.parametrize(
    ("text", "columns", "iceberg"),
    [
        ("carrier", ("carrier",), "carrier ASC NULLS FIRST"),
        ("carrier,ts desc", ("carrier", "ts"), "carrier ASC NULLS FIRST, ts DESC NULLS LAST"),
        ("at.hour DESC NULLS FIRST", ("at.hour",), "at.hour DESC NULLS FIRST"),
        ("a nulls last, b", ("a", "b"), "a ASC NULLS LAST, b ASC NULLS FIRST"),
        ("zorder(a,b)", ("a", "b"), "zorder(a, b)"),
        ("ZORDER ( a , b.c )", ("a", "b.c"), "zorder(a, b.c)"),
    ],
)
def test_orders_are_read_in_icebergs_words(text, columns, iceberg) -> None:
    order = SortOrder(text)
    assert (order.columns, order.iceberg, order.zorder) == (columns, iceberg, text.lower().startswith("zorder"))
    assert order == text


@pytest.mark.parametrize("text", ["", "a b", "a, ", "zorder()", "a; DROP", "a DESC FIRST", "`a`", "zorder(a) b"])
def test_what_is_none_says_the_forms(text) -> None:
    with pytest.raises(ValueError, match=r"'carrier, ts DESC NULLS LAST', or 'zorder\(origin, dest\)'"):
        SortOrder(text)


def test_a_column_is_in_it_once() -> None:
    with pytest.raises(ValueError, match="a is in the order twice"):
        SortOrder("a, b, a DESC")
