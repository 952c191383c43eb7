from __future__ import annotations

import pytest

from lakeward.lineage.columns import Origin, of_stream
from lakeward.spec.model.stream import StreamSpec


def spec(sql: str, *, reference_columns: str | None = None) -> StreamSpec:
    reference = {"airlines": {"csv": "airlines.csv", "columns": reference_columns}}
    return StreamSpec.model_validate(
        {
            "id": "flights",
            "owner": "data-platform",
            "sources": {
                "Flights": {
                    "kafka": {"topics": ["flights"]},
                    "decode": {"json": "Carrier STRING, dep DOUBLE, arr DOUBLE"},
                }
            },
            "reference": reference if "airlines" in sql else {},
            "transform": {"sql": sql},
            "sink": {"iceberg": {"table": "nyc.flights"}},
        }
    )


def columns(sql: str, **more: str) -> dict[str, list[str]] | None:
    lineage = of_stream(spec(sql, **more))
    if lineage is None:
        return None
    return {name: [f"{item.relation}.{item.column}" for item in items] for name, items in lineage.columns.items()}


def test_a_star_is_every_column_of_the_source_with_those_that_lakeward_adds() -> None:
    lineage = of_stream(spec("SELECT * FROM Flights"))
    assert lineage is not None
    assert list(lineage.columns)[:3] == ["Carrier", "dep", "arr"]
    assert lineage.columns["_kafka_offset"] == (Origin("Flights", "_kafka_offset"),)
    assert lineage.unchanged == set(lineage.columns)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT carrier c, dep + arr t FROM flights", {"c": ["Flights.Carrier"], "t": ["Flights.arr", "Flights.dep"]}),
        ("WITH x AS (SELECT dep * 2 AS d FROM flights) SELECT d AS `D e` FROM x", {"D e": ["Flights.dep"]}),
        ("SELECT upper(Carrier) AS u, 1 AS one FROM Flights", {"u": ["Flights.Carrier"], "one": []}),
        ("SELECT f.dep, a.n FROM Flights f CROSS JOIN airlines a", {"dep": ["Flights.dep"], "n": ["airlines.n"]}),
        ("SELECT e FROM Flights LATERAL VIEW explode(array(dep, arr)) t AS e", {"e": ["Flights.arr", "Flights.dep"]}),
    ],
)  # fmt: skip
def test_each_column_names_what_it_is_made_from_in_the_spelling_of_the_spec(
    sql: str, expected: dict[str, list[str]]
) -> None:
    assert columns(sql) == expected


def test_only_a_column_that_is_passed_on_is_unchanged() -> None:
    lineage = of_stream(spec("WITH x AS (SELECT carrier AS c, dep + 1 AS d FROM flights) SELECT c, d FROM x"))
    assert lineage is not None
    assert lineage.unchanged == {"c"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f.*, a.name FROM Flights f JOIN airlines a ON f.carrier = a.carrier",  # what a.* adds is not known
        "SELECT carrier, name FROM Flights JOIN airlines USING (carrier)",  # whose column `name` is, only Spark knows
        "SELECT nothing FROM Flights",
    ],
)
def test_what_cannot_be_read_with_certainty_has_no_column_lineage(sql: str) -> None:
    assert columns(sql) is None


def test_declared_columns_of_a_reference_settle_it() -> None:
    sql = "SELECT f.dep, name FROM Flights f JOIN airlines a ON f.carrier = a.code"
    assert columns(sql) is None
    assert columns(sql, reference_columns="code STRING, name STRING") == {
        "dep": ["Flights.dep"],
        "name": ["airlines.name"],
    }
