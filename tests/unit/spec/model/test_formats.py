"""Declared formats of decoded values: what may be declared, and what is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakeward.spec.model.decode import Decode
from lakeward.spec.model.formats import Formats

SCHEMA = "at TIMESTAMP, day DATE"


def _decode(**keys: Any) -> Decode:
    return Decode.model_validate({"json": {"schema": SCHEMA, **keys}})


def test_columns_alone_are_strict() -> None:
    decode = Decode.model_validate({"json": SCHEMA})
    assert (decode.ddl, decode.formats) == (SCHEMA, Formats())
    assert decode.document()["json"] == SCHEMA


def test_a_block_declares_formats_and_survives_its_document() -> None:
    decode = _decode(timestamps="epoch_ms", dates="yyyyMMdd", decimals="text", without_zone="refuse")
    assert (decode.ddl, decode.formats) == (SCHEMA, Formats("epoch_ms", "yyyyMMdd", "text", "refuse"))
    assert Decode.model_validate(decode.document()) == decode


@pytest.mark.parametrize(
    ("key", "given", "why"),
    [
        ("timestamps", "HH:mm:ss", "reads no year and no month and no day"),
        ("timestamps", "yyyy-MM-dd", "reads no hour"),
        ("timestamps", "dd.MM.yyyy hh:mm", "which half"),
        ("timestamps", "epoch_us", "no pattern of Spark"),
        ("dates", "yyyy-MM", "reads no day"),
        ("dates", "epoch_s", "no pattern of Spark"),
    ],
)
def test_a_pattern_that_leaves_a_part_to_be_guessed(key: str, given: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        _decode(**{key: given})
