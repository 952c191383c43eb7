"""Columns of the transform against columns of the table."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typed import commands, parsed

from lakeward.connectors import schema_evolution
from lakeward.connectors.schema_evolution import Comparison, alters, compare, grows, sql_type
from lakeward.engine.schema import check
from lakeward.platform.errors import SpecError
from lakeward.supervision.decide.remedy import of_block


def struct(required: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": name != required, "metadata": {}} for name, kind in fields.items()
        ],
    }


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapping(kind: Any, key: str = "string") -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": kind, "valueContainsNull": True}


def casts(given: Any, has: Any) -> bool:
    return (given, has) == ("integer", "long")


def compared(given: Any, has: Any) -> Comparison:
    return compare(given, has, casts)


def judge(given: Any, has: Any, generation: int = 1, **more: Any) -> list[str]:
    found = check("s", generation, "ns.t", "lake", compared(given, has), **{"added": {}, "additive": True, **more})
    return [each.name for each in found]


def why(given: Any, has: Any, **more: Any) -> SpecError:
    with pytest.raises(SpecError) as raised:
        judge(given, has, **more)
    return raised.value


def test_equal_columns_in_any_order_fit() -> None:
    given = struct(b="integer", p=struct(x="string", y="long"), a="string")
    has = struct(a="string", b="integer", p=struct(y="long", x="string"))
    assert judge(given, has, additive=False) == []
    assert schema_evolution.same(struct(a="string", b="long"), struct(b="long", a="string"))
    assert not schema_evolution.same(given, has), "a struct is stored by place: its fields must be put in order"


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    given = struct(a="string", carrier_name="string", n="long", m="integer")
    has = struct(a="string", carrier="string", n="integer", m="long")
    error = why(given, has, additive=False)
    assert error.why == "not in the table: carrier_name; only in the table: carrier; n is BIGINT, the table has INT"
    assert "ns.t" in error.what
    assert "NULL AS" in error.next
    assert "schema: {evolution: additive}" in error.next
    assert "ALTER TABLE `lake`.`ns`.`t` ADD COLUMNS (`carrier_name` STRING)" in error.next
    assert "ALTER TABLE `lake`.`ns`.`t` ALTER COLUMN `n` TYPE BIGINT" in error.next


def test_a_statement_that_is_enough_is_a_command_that_can_be_typed() -> None:
    told = why(struct(a="string", s="string"), struct(a="string"), additive=False).next
    statement = "ALTER TABLE `lake`.`ns`.`t` ADD COLUMNS (`s` STRING)"
    assert told.startswith(
        f"lakeward sql --write '{statement}'; then: lakeward streams start s; or change the transform"
    )
    assert told.endswith(", then: lakeward deploy")
    for command in commands(of_block("s", {"reason": "config", "next": told})):
        parsed(command)
    assert shlex.split(commands(told)[0])[-1] == statement


def test_what_a_table_can_take_at_any_depth() -> None:
    given = struct(
        new=struct(q="integer"), p=struct(z="double", x="decimal(9,2)"), l=array(struct(u="long", v="string")),
        m=mapping(struct(k="string")),
    )  # fmt: skip
    has = struct(p=struct(x="decimal(5,2)"), l=array(struct(u="integer")), m=mapping(struct()))
    found = compared(given, has)
    assert judge(given, has) == []
    assert grows(found) == [
        "adds new STRUCT<`q`: INT>",
        "adds p.z DOUBLE",
        "adds l.element.v STRING",
        "adds m.value.k STRING",
        "widens p.x from DECIMAL(5,2) to DECIMAL(9,2)",
        "widens l.element.u from INT to BIGINT",
    ]
    assert alters(found, "ns.t", "spark_catalog")[0].startswith(
        "ALTER TABLE `spark_catalog`.`ns`.`t` ADD COLUMNS (`new` STR"
    )


@pytest.mark.parametrize(
    ("given", "has", "said"),
    [
        (struct(n="integer"), struct(n="string"), "n is INT, the table has STRING"),
        (struct(n="string"), struct(n="integer"), "n is STRING, the table has INT"),
        (struct(n="decimal(9,3)"), struct(n="decimal(5,2)"), "n is DECIMAL(9,3), the table has DECIMAL(5,2)"),
        (struct(n="decimal(4,2)"), struct(n="decimal(5,2)"), "n is DECIMAL(4,2), the table has DECIMAL(5,2)"),
        (struct(b="long"), struct(a="long"), "only in the table: a"),
        (struct(p=struct(y="long")), struct(p=struct(x="long")), "only in the table: p.x"),
        (struct(a="long"), struct("q", a="long", q="long"), "only in the table: q"),
        (struct(N="long"), struct(n="long"), "N is n in the table: names that differ in case only"),
        (struct(p="long"), struct(p=struct(x="long")), "p is BIGINT, the table has STRUCT<`x`: BIGINT>"),
        (struct(p=array("long")), struct(p=mapping("long")), "p is ARRAY<BIGINT>, the table has MAP<STRING, BIGINT>"),
        (struct(m=mapping("long", "long")), struct(m=mapping("long", "integer")), "the keys of a map stay as they are"),
    ],
)
def test_what_it_cannot_take_is_refused_by_path(given: Any, has: Any, said: str) -> None:
    error = why(given, has, added={"q": 9})
    assert said in error.why
    assert "additive" not in error.next, "it is said already"


def test_a_column_that_a_newer_generation_added_stays_empty_and_no_other() -> None:
    given, has = struct(a="long", p=struct(x="long")), struct(a="long", b="long", p=struct(x="long", y="long"))
    added = {"b": 2, "p.y": 3}
    assert judge(given, has, 1, added=added, additive=False) == ["b", "p.y"]
    assert why(given, has, generation=2, added=added).why == "only in the table: b"
    assert why(given, has, generation=3, added=added).why == "only in the table: b, p.y"


def test_a_table_of_several_streams_is_not_changed_by_one() -> None:
    given, has = struct(a="long", b="long"), struct(a="integer")
    error = why(given, has, others=["other"])
    assert error.why == (
        "this stream adds b BIGINT, widens a from INT to BIGINT, and has the table in common with other"
    )
    assert judge(struct(a="integer"), has, others=["other"]) == []


def test_types_in_the_words_of_sql() -> None:
    assert sql_type(struct(**{"a b": "short", "c": array("byte")})) == "STRUCT<`a b`: SMALLINT, `c`: ARRAY<TINYINT>>"


@pytest.mark.parametrize("additive", [False, True])
def test_the_other_streams_of_a_table_get_its_new_columns_too(additive: bool) -> None:
    """Without them they would be refused at their next start."""
    told = why(struct(a="long", b="long"), struct(a="long"), additive=additive, others=["t", "u"]).next
    block = of_block("s", {"reason": "config", "next": told})
    alter = "lakeward sql --write 'ALTER TABLE `lake`.`ns`.`t` ADD COLUMNS (`b` BIGINT)'"
    assert block.startswith(f"{alter}; name b in conf/streams/t.yaml and conf/streams/u.yaml too, say NULL AS ..; ")
    first = [*commands(block)][:5]
    assert first[1:] == [
        "lakeward deploy", "lakeward streams upgrade t --wait", "lakeward streams upgrade u --wait",
        "lakeward streams start s",
    ]  # fmt: skip
    for command in first:
        parsed(command)
    assert "additive" not in block, "a table of several streams is not changed by one"
    wider = why(struct(a="long"), struct(a="integer"), additive=additive, others=["t"]).next
    assert "conf/streams/t.yaml" not in wider, "it lands its INT in a BIGINT"
