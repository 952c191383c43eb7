"""Which Spark type a column of PostgreSQL has when it is read as a reference."""

from __future__ import annotations

import pytest

from lakeward.connectors.postgres.columns import Column
from lakeward.connectors.reference.postgres import spark_type


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("integer", "INT"), ("character varying(9)", "STRING"), ("jsonb", "STRING"), ("bytea", "BINARY"),
        ("numeric(6,2)", "DECIMAL(6,2)"), ("numeric", "DECIMAL(38,18)"), ("numeric(40,2)", None),
        ("numeric(3,5)", None), ("numeric(3,-1)", None), ("timestamp(3) with time zone", "TIMESTAMP"),
        ("timestamp without time zone", "TIMESTAMP_NTZ"), ("integer[]", None), ("interval", None), ("point", None),
    ],
)  # fmt: skip
def test_a_type_keeps_every_value_or_is_refused(kind: str, expected: str | None) -> None:
    assert spark_type(Column(kind, kind)) == expected
    assert spark_type(Column(kind, "own", enum=True)) in ("STRING", expected)
