"""How many records a batch consumed and how many of them are bad: exact whatever the cluster does meanwhile.

Three ways of counting were weighed. An accumulator (and `DataFrame.observe`, which is one) counts a shuffle task again
when its output was lost. Offsets count the holes of transactional and compacted topics as records. The *result* of an
aggregate is exact: Spark returns it once, however often a task ran. It costs one job over the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.exact.batch import Counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def count_batch(decoded: DataFrame, bad: Column | None = None) -> Counted:
    """Count a decoded batch with one aggregate.

    Args:
        decoded: one row per record of the source. Never the output of a stateful query: it would run twice.
        bad: true for a row that goes to quarantine; None where there is no quarantine.
    """
    from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows it by

    kept_aside = F.count_if(bad) if bad is not None else F.lit(0)
    found = decoded.agg(F.count(F.lit(1)), kept_aside).first()
    return Counted(consumed=int(found[0]), quarantined=int(found[1])) if found is not None else Counted(consumed=0)
