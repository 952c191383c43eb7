"""Which columns of PostgreSQL keep the values of which Spark types."""

from __future__ import annotations

import pytest

from lakeward.connectors.postgres import types
from lakeward.connectors.postgres.columns import Column, Index, check_keys, compare, wanted
from lakeward.connectors.postgres.name import Name, quote
from lakeward.platform.errors import SpecError

T = Name("public", "t")


@pytest.mark.parametrize(
    ("kind", "column", "keeps"),
    [
        ("int", "integer", True),
        ("int", "bigint", True),
        ("int", "smallint", False),
        ("int", "double precision", True),
        ("bigint", "double precision", False),
        ("bigint", "numeric", True),
        ("bigint", "numeric(19,0)", True),
        ("bigint", "numeric(20,2)", False),
        ("double", "numeric", False),
        ("boolean", "numeric", False),
        ("float", "double precision", True),
        ("double", "real", False),
        ("decimal(10,2)", "numeric(12,4)", True),
        ("decimal(10,2)", "numeric(10,4)", False),
        ("decimal(10,2)", "numeric(10,1)", False),
        ("decimal(38,38)", "numeric", True),
        ("string", "character varying(10)", True),
        ("string", "character(10)", False),
        ("string", "integer", False),
        ("string", "uuid", True),
        ("timestamp", "timestamp with time zone", True),
        ("timestamp", "timestamp(6) with time zone", True),
        ("timestamp", "timestamp(3) with time zone", False),
        ("timestamp", "timestamp without time zone", False),
        ("timestamp_ntz", "timestamp with time zone", False),
        ("timestamp_ntz", "timestamp without time zone", True),
        ("date", "timestamp without time zone", False),
        ("binary", "bytea", True),
        ("binary", "text", False),
        ("array<int>", "jsonb", True),
        ("struct<a:int>", "json", True),
        ("map<string,int>", "text", False),
        ("array<int>", "integer[]", False),
    ],
)
def test_a_column_keeps_every_value_or_is_refused(kind, column, keeps):
    assert types.fits(kind, column) is keeps


def test_an_enum_takes_text():
    assert types.fits("string", "app.mood", enum=True)
    assert not types.fits("int", "app.mood", enum=True)


def test_a_type_that_postgresql_has_not_is_named():
    with pytest.raises(SpecError) as caught:
        wanted("s", {"a": "int", "b": "interval day to second", "c" * 64: "int"})
    assert "b is INTERVAL DAY TO SECOND" in caught.value.why
    assert "63 bytes" in caught.value.why


def test_every_difference_is_named_with_its_statement():
    has = {
        "n": Column("smallint", "smallint"),
        "left": Column("text", "text"),
        "made": Column("text", "text", filled=True),
        "id": Column("bigint", "bigint", filled=True, closed="IDENTITY"),
        "mail": Column("text", "app.mail"),
    }
    with pytest.raises(SpecError) as caught:
        compare("s", T, {"n": "int", "id": "bigint", "mail": "int", 'o"dd': "date"}, has)
    assert caught.value.why == (
        'not in the table: o"dd; n is INT, the table has smallint: not every value keeps its meaning; id is generated '
        "by the table, nobody may write it; mail is INT, the table has app.mail: not every value keeps its meaning; "
        "only in the table, and without a default: left"
    )
    assert caught.value.next.endswith(
        'ALTER TABLE "public"."t" ADD COLUMN "o""dd" date, ALTER COLUMN "n" TYPE integer, ALTER COLUMN "id" DROP '
        'IDENTITY, ALTER COLUMN "mail" TYPE integer, DROP COLUMN "left";'
    )
    compare("s", T, {"n": "smallint", "left": "string", "mail": "string"}, has)


KEYS = {"a": Column("text", "text", required=True), "b": Column("text", "text")}


@pytest.mark.parametrize(
    ("keys", "indexes", "release", "statement"),
    [
        (["a"], [Index(frozenset("a"), nulls_equal=False)], 180000, None),
        (["a", "b"], [Index(frozenset("ab"), nulls_equal=True)], 180000, None),
        (["a"], [Index(frozenset("ab"), nulls_equal=True)], 180000, 'CREATE UNIQUE INDEX ON "public"."t" ("a");'),
        (["b"], [Index(frozenset("b"), nulls_equal=False)], 180000, '("b") NULLS NOT DISTINCT;'),
        (["b"], [Index(frozenset("b"), nulls_equal=False)], 140000, 'ALTER COLUMN "b" SET NOT NULL; then'),
        (["b"], [], 140000, 'ALTER COLUMN "b" SET NOT NULL; CREATE UNIQUE INDEX ON "public"."t" ("b");'),
    ],
)
def test_an_upsert_needs_an_index_that_tells_null_keys_too(keys, indexes, release, statement):
    if statement is None:
        check_keys("s", T, keys, KEYS, indexes, release)
        return
    with pytest.raises(SpecError) as caught:
        check_keys("s", T, keys, KEYS, indexes, release)
    assert statement in caught.value.next


def test_a_name_is_quoted_in_one_place():
    assert Name.of("t").quoted == '"public"."t"'
    assert Name.of("A.b").quoted == '"A"."b"'
    assert quote('a"; DROP TABLE t; --') == '"a""; DROP TABLE t; --"'
    for text in ("", "a\x00"):
        with pytest.raises(ValueError, match="not an identifier"):
            quote(text)
