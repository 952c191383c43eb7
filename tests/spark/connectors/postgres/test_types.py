"""Every value comes back from PostgreSQL as it left Spark."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from postgres_rig import Rig

from lakeward.connectors.postgres import stage
from lakeward.platform.errors import SpecError

ODD = "a\\b\tc\nd\re\\N \\. 'q' \"z\" ü€😀"
# Spark SQL -> as PostgreSQL shows it, or as psycopg2 gives it.
VALUES: list[tuple[str, str, Any]] = [
    ("true", "boolean", True),
    ("CAST(-128 AS TINYINT)", "smallint", -128),
    ("CAST(-32768 AS SMALLINT)", "smallint", -32768),
    ("-2147483648", "integer", -(2**31)),
    ("-9223372036854775808L", "bigint", -(2**63)),
    ("CAST(0.1 AS FLOAT)", "real", 0.1),
    ("double('NaN')", "double precision", math.nan),
    ("double('-Infinity')", "double precision", -math.inf),
    ("1.7976931348623157E308D", "double precision", 1.7976931348623157e308),
    ("5.0E-324D", "double precision", 5e-324),
    ("CAST('-12345678901234567890.123456789012345678' AS DECIMAL(38,18))", "numeric(38,18)",
     Decimal("-12345678901234567890.123456789012345678")),
    ("CAST(0 AS DECIMAL(38,18))", "numeric(38,18)", Decimal("0E-18")),
    ("''", "text", ""),
    ("CAST(NULL AS STRING)", "text", None),
    ("CAST(NULL AS TIMESTAMP)", "timestamp with time zone", None),
    ("X'00FF5C0A'", "bytea", b"\x00\xff\\\n"),
    ("DATE'0001-01-01'", "date", date(1, 1, 1)),
    ("DATE'9999-12-31'", "date", date(9999, 12, 31)),
    ("CAST('-0044-03-15' AS DATE)::", "date", "0045-03-15 BC"),
    ("CAST('+12345-06-07' AS DATE)::", "date", "12345-06-07"),
    ("TIMESTAMP'2026-10-25T00:30:00.123456Z'", "timestamp with time zone",
     datetime(2026, 10, 25, 0, 30, 0, 123456, UTC)),
    ("TIMESTAMP'0001-01-01T00:00:00Z'::", "timestamp with time zone", "0001-01-01 00:00:00+00"),
    ("timestamp_micros(-99999999999999999)::", "timestamp with time zone", "1200-02-15 14:13:20.000001+00 BC"),
    ("TIMESTAMP_NTZ'2026-03-29 02:30:00.000001'", "timestamp without time zone",
     datetime(2026, 3, 29, 2, 30, 0, 1)),
    ("TIMESTAMP_NTZ'0044-03-15 12:00:00'::", "timestamp without time zone", "0044-03-15 12:00:00"),
    ("array(1, NULL, 3)", "jsonb", [1, None, 3]),
    ("map('k', double('NaN'))", "jsonb", {"k": "NaN"}),
    ("named_struct('a', CAST(NULL AS INT), 's', 'x\\ty\\\\\"', 't', TIMESTAMP'2026-01-01T00:00:00.000001Z')", "jsonb",
     {"a": None, "s": 'x\ty\\"', "t": "2026-01-01T01:00:00.000001+01:00"}),
    ("CAST(NULL AS ARRAY<INT>)", "jsonb", None),
    ("parse_json('{\"v\": [1.5]}')", "jsonb", {"v": [1.5]}),
]  # fmt: skip


def test_every_type_keeps_its_values(rig: Rig) -> None:
    """Also in a time zone with two o'clocks: a driver's session has UTC, and nothing here relies on it."""
    session = rig.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.ansi.enabled", "true")
    names = [f"c{number}" for number in range(len(VALUES))]
    texts = [f"{expression.removesuffix('::')} AS {name}" for name, (expression, *_) in zip(names, VALUES, strict=True)]
    frame = session.range(1).selectExpr(*texts)
    odd = session.createDataFrame([(ODD,)], "odd STRING")
    rows = frame.crossJoin(odd)
    given = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    rig.create(given)

    assert rig.writer(session).land(rows, 0).counts.landed == 1

    assert {name: column.kind for name, column in rig.state().columns.items()} == {
        **dict(zip(names, (kind for _, kind, _ in VALUES), strict=True)), "odd": "text"
    }  # fmt: skip
    for name, (expression, _, expected) in zip(names, VALUES, strict=True):
        text = "::text" if expression.endswith("::") else ""
        [(found,)] = rig.sql(f'SELECT "{name}"{text} FROM {{t}}')
        found = bytes(found) if isinstance(found, memoryview) else found
        same = math.isnan(found) if isinstance(expected, float) and math.isnan(expected) else found == expected
        assert same, f"{expression}: {found!r}"
    assert rig.sql("SELECT odd FROM {t}") == [(ODD,)]


@pytest.mark.parametrize(
    ("expression", "words"),
    [("concat('a', char(0))", "column kind"), ("CAST(X'ff' AS STRING)", "column kind")],
)
def test_a_text_that_is_none_is_named_and_nothing_lands(rig: Rig, expression: str, words: str) -> None:
    rig.create()
    rows = rig.rows(0, 4).selectExpr("_kafka_topic", "_kafka_partition", "_kafka_offset", f"{expression} AS kind")
    with pytest.raises(SpecError, match=words) as caught:
        rig.writer().land(rows, 0)
    assert stage.rule_for("kind") in caught.value.next
    assert rows.where(stage.rule_for("kind")).count() == 0
    assert rig.state().raw is None
    assert rig.values() == []


def test_a_row_the_table_refuses_is_reported_and_nothing_lands(rig: Rig) -> None:
    rig.create()
    rig.sql('ALTER TABLE {t} ADD CHECK ("_kafka_offset" <> 3)')
    with pytest.raises(SpecError, match="refused a row") as caught:
        rig.land(0)
    assert "check constraint" in caught.value.why
    assert (rig.state().raw, rig.values()) == (None, [])
