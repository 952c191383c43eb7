"""What `config validate` says that a column accepts."""

from __future__ import annotations

import pytest

from lakeward.spec.checks.accepted import accepts
from lakeward.spec.model.formats import Formats


@pytest.mark.parametrize(
    ("kind", "formats", "said"),
    [
        ("SMALLINT", Formats(), "a whole number in the range of SMALLINT"),
        ("DECIMAL(10,2)", Formats(), "a number or string with exactly such a value"),
        ("DECIMAL(10,2)", Formats(decimals="text"), "a string with exactly such a value"),
        ("TIMESTAMP", Formats(), "yyyy-MM-ddTHH:mm:ss with a zone; without a zone: UTC"),
        ("TIMESTAMP", Formats(without_zone="refuse"), "yyyy-MM-ddTHH:mm:ss with a zone"),
        ("TIMESTAMP", Formats(timestamps="epoch_ms"), "milliseconds since 1970"),
        ("DATE", Formats(dates="dd.MM.yyyy"), "dd.MM.yyyy"),
        ("ARRAY<STRUCT<x: INT>>", Formats(), "its JSON, each value by its own type"),
    ],
)
def test_a_column(kind: str, formats: Formats, said: str) -> None:
    assert accepts(kind, formats) == said


def test_csv_has_no_json() -> None:
    assert accepts("DOUBLE", Formats(), csv=True).startswith("a number;")
