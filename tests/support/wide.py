"""A table or a stream with very many columns of all common types, and one that is nested eight levels deep."""

from __future__ import annotations

from typing import Any

TYPES = ("DOUBLE", "STRING", "TIMESTAMP", "DECIMAL(18,4)", "BIGINT", "DATE", "BOOLEAN")
DEEP = (
    "STRUCT<l1: ARRAY<STRUCT<l2: MAP<STRING, STRUCT<l3: ARRAY<MAP<STRING, "
    "STRUCT<l8: DECIMAL(18,4), t: TIMESTAMP, d: DATE>>>>>>>>"
)
LEAF = "deep.l1[0].l2[a].l3[0][x].l8"
"""The path of the deepest value of `record`."""


def columns(number: int) -> list[tuple[str, str]]:
    """Name and type of each plain column."""
    return [(f"c{index:04d}", TYPES[index % len(TYPES)]) for index in range(number)]


def ddl(number: int) -> str:
    plain = ", ".join(f"{name} {kind}" for name, kind in columns(number))
    return f"id BIGINT, {plain}, deep {DEEP}"


def record(key: int, number: int, **more: Any) -> dict[str, Any]:
    """A record; `more` replaces values, `leaf` the deepest one."""
    leaf = {"l8": more.pop("leaf", f"{key}.5"), "t": "2026-11-01T00:00:00Z", "d": "2026-02-03"}
    plain = {name: _value(kind, key + index) for index, (name, kind) in enumerate(columns(number))}
    return {"id": key, **plain, "deep": {"l1": [{"l2": {"a": {"l3": [{"x": leaf}]}}}]}, **more}


def _value(kind: str, at: int) -> Any:
    return {
        "DOUBLE": at / 4,
        "STRING": f"v{at % 10}",
        "TIMESTAMP": f"2026-11-{1 + at % 20:02d}T03:{at % 60:02d}:00Z",
        "DECIMAL(18,4)": f"{at}.1234",
        "BIGINT": at,
        "DATE": f"2026-01-{1 + at % 28:02d}",
        "BOOLEAN": at % 2 == 0,
    }[kind]


def sql_types(number: int) -> str:
    """The columns but `id`, as Spark's DDL without colons."""
    plain = ", ".join(f"{name} {kind}" for name, kind in columns(number))
    return f"{plain}, deep {DEEP}"


def sql_values(number: int) -> str:
    """SQL of the columns but `id`, made of `id` as `record` makes them."""
    leaf = "named_struct('l8', CAST(id AS DECIMAL(18,4)), 't', TIMESTAMP'2026-11-01 00:00:00', 'd', DATE'2026-02-03')"
    deep = f"named_struct('l1', array(named_struct('l2', map('a', named_struct('l3', array(map('x', {leaf})))))))"
    plain = ", ".join(_sql(kind, f"(id + {index})") for index, (_, kind) in enumerate(columns(number)))
    return f"{plain}, {deep}"


def _sql(kind: str, at: str) -> str:
    return {
        "DOUBLE": f"{at} / 4D",
        "STRING": f"concat('v', {at} % 10)",
        "TIMESTAMP": f"TIMESTAMP'2026-11-01 03:00:00' + make_interval(0, 0, 0, CAST({at} % 20 AS INT))",
        "DECIMAL(18,4)": f"CAST({at} AS DECIMAL(18,4))",
        "BIGINT": at,
        "DATE": f"date_add(DATE'2026-01-01', CAST({at} % 28 AS INT))",
        "BOOLEAN": f"{at} % 2 = 0",
    }[kind]


def expectations(number: int, most: int) -> list[str]:
    """Checks of a suite, as YAML: nulls, ranges, sets, patterns and greatest values of many columns, and of the table.

    Rows of `record` pass all of them but the set of `c0001`, in which a value is missing.
    """
    found = [
        "{type: expect_table_row_count_to_be_between, kwargs: {min_value: 1}}",
        f"{{type: expect_table_column_count_to_be_between, kwargs: {{min_value: {number}}}}}",
        "{type: expect_column_values_to_be_unique, kwargs: {column: id}}",
        "{type: expect_compound_columns_to_be_unique, kwargs: {column_list: [id, c0000]}}",
    ]
    for name, kind in columns(number):
        last = 8 if name == "c0001" else 9
        values = ", ".join(f"v{value}" for value in range(last + 1))
        of_kind = {
            "DOUBLE": [f"{{type: expect_column_values_to_be_between, kwargs: {{column: {name}, min_value: 0}}}}"],
            "BIGINT": [f"{{type: expect_column_values_to_be_between, kwargs: {{column: {name}, min_value: 0}}}}"],
            "STRING": [
                f"{{type: expect_column_values_to_be_in_set, kwargs: {{column: {name}, value_set: [{values}]}}}}",
                f"{{type: expect_column_values_to_match_regex, kwargs: {{column: {name}, regex: '^v[0-9]$'}}}}",
            ],
            "TIMESTAMP": [
                f"{{type: expect_column_max_to_be_between, kwargs: {{column: {name}, max_value: '2027-01-01'}}}}"
            ],
        }
        found.append(f"{{type: expect_column_values_to_not_be_null, kwargs: {{column: {name}}}}}")
        found += of_kind.get(kind, [])
    return found[:most]
