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
        ("timestamps", "EEE, dd MMM yyyy HH:mm:ss", "no letter E"),
        ("timestamps", "uuuu-MM-dd HH:mm", "no letter u"),
        ("timestamps", "yyyy-MM-dd HH:mm z", "a name such as IST or CST is that of several zones"),
        ("timestamps", "yyyy-MM-dd HH:mm V", "V is there 1 times, not 2"),
        ("timestamps", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "9 digits of a second, and a TIMESTAMP has 6"),
        ("timestamps", "yyyyMMddHHmmssSSS", "directly after others; write ss.SSS"),
        ("timestamps", "yyyy-MM-dd HH:mm:ss #", "# is not in quotes"),
        ("timestamps", "yyyy-MM-dd'T HH:mm:ss", "a quote does not end"),
        ("timestamps", "yyyy-MM-dd HH:mm[:ss", "a bracket has no other one"),
        ("dates", "yyyy-MMMMM-dd", "M is there 5 times"),
        ("dates", "yyyy-MM", "reads no day"),
        ("dates", "epoch_s", "no pattern of Spark"),
    ],
)
def test_a_pattern_that_leaves_a_part_to_be_guessed(key: str, given: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        _decode(**{key: given})


@pytest.mark.parametrize(
    "given",
    [
        "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX", "dd-MMM-yyyy HH:mm", "yyyyMMddHHmmss", "y-M-d H:m", "yyyy-DDD HH:mm",
        "yyyy-MM-dd hh:mm:ss a", "yyyy-MM-dd HH:mm VV", "yyyy-MM-dd 'o''clock' HH:mm O", "G yyyy-MM-dd kk:mm",
    ],
)  # fmt: skip
def test_a_pattern_that_spark_reads(given: str) -> None:
    assert _decode(timestamps=given).formats.timestamps == given
