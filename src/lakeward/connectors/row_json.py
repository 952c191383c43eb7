"""Rows as JSON with every microsecond. Spark's own formats cut times to milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's JSON and CSV writers: six decimals of a second, and an offset with its seconds."""
_WHOLE_MILLISECONDS = r"(\.\d{3})000(?=[Z+\-\"])"


def row_json(frame: DataFrame, names: Sequence[str]) -> Column:
    """The named columns of `frame` as one JSON object, without nulls.

    Times have six decimals in rows that need them, and three in others: by these texts rows are recognized that an
    earlier version put into quarantine.
    """
    from pyspark.sql import functions as F

    row = F.struct(*(F.col(quote(name)) for name in names))
    short, exact = F.to_json(row), F.to_json(row, TIMES)
    needed = F.lit(False)
    for name in names:
        kind = frame.schema[name].dataType.simpleString()
        if kind in ("timestamp", "timestamp_ntz"):
            micros = F.unix_micros(F.col(quote(name)).cast("timestamp"))
            needed |= F.coalesce(micros % 1000 != 0, F.lit(False))
        elif "timestamp" in kind:
            value = F.struct(F.col(quote(name)))
            rounded = F.regexp_replace(F.to_json(value, TIMES), _WHOLE_MILLISECONDS, "$1")
            needed |= rounded != F.to_json(value)
    return F.when(needed, exact).otherwise(short)
