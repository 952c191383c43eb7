"""Lines of text: one column, as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.connectors.source import ERROR, RAW, REASON, VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DECODE = "decode"


def decode(raw: DataFrame, keep: Sequence[str]) -> DataFrame:
    """`value`, the columns of `keep`, and REASON, ERROR, RAW; a line that is not UTF-8 is a bad one."""
    from pyspark.sql import functions as F

    text = F.col(VALUE).cast("string")
    bad = ~F.is_valid_utf8(text)
    return raw.select(
        text.alias("value"),
        *keep,
        F.when(bad, F.lit(DECODE)).alias(REASON),
        F.when(bad, F.lit("not UTF-8")).alias(ERROR),
        F.when(bad, F.col(VALUE)).alias(RAW),
    )
