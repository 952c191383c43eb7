"""Names of tables: every part that a system allows, in every statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from lakeward.spec.sql.names import NotAName, dotted, name_parts
from lakeward.spec.sql.statements import call_name, quote_table

ODD = ["a-b", "c d", "v1.2", "o'clock", "ta`ck", '"q"', "select", "größe", "back\\slash", "`", "..", "表"]
PARTS = st.one_of(
    st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.sampled_from(ODD),
)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_name_is_read_as_it_was_written(parts: list[str]) -> None:
    assert name_parts(dotted(parts)) == tuple(parts)


@given(st.lists(PARTS, min_size=1, max_size=3))
def test_a_quoted_name_has_the_same_parts(parts: list[str]) -> None:
    for text in (quote_table(dotted(parts), "lake"), call_name(dotted(parts), "lake")):
        assert name_parts(text) == ("lake", *parts)


def test_every_quoted_part_is_one_identifier_of_spark() -> None:
    table = parse_one(f"SELECT * FROM {quote_table('a-b.`v1.2`')}", dialect="spark").find(exp.Table)
    assert table is not None
    assert (table.db, table.name) == ("a-b", "v1.2")


@pytest.mark.parametrize("name", ["nyc.flights", "eu.nyc.flights", "a-b.c d", "nyc.o'clock"])
def test_names_without_dots_in_a_part_are_written_plainly(name: str) -> None:
    assert dotted(name.split(".")) == name


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a.`b", "a.`b`c", "a`b.c", "``"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(NotAName):
        name_parts(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nyc.flights", "lake.nyc.flights"),
        ("a-b.c d", "lake.`a-b`.`c d`"),
        ("nyc.`v1.2`", "lake.nyc.`v1.2`"),
        ("nyc.select", "lake.nyc.`select`"),
        ("nyc.2024", "lake.nyc.`2024`"),
    ],
)
def test_a_procedure_gets_plain_words_as_they_are(name: str, text: str) -> None:
    assert call_name(name, "lake") == text
