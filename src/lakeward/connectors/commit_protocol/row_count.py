"""The exact row count of a batch, also when Spark runs tasks twice.

Three methods were compared. An accumulator (and `DataFrame.observe`, which is one) counts a shuffle task twice when its
output was lost. Offsets count the holes of transactional and compacted topics as records. The *result* of an aggregate
is exact: Spark returns it once, however often a task ran. It costs one job over the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.platform.errors import expect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ADAPTIVE = "spark.sql.adaptive.enabled"


def tally(frame: DataFrame, *of: Column | str) -> tuple[int, ...]:
    """Count the rows, and for each given column the values that are not null, in one job.

    The job is planned without adaptive execution: an aggregate has nothing to adapt, and planning it stage by stage
    costs a third of the count. A persisted part of the frame is planned already, with its session's settings.

    Args:
        frame: persisted, or a plain read of a source. Not the output of a stateful query: it would run twice. Not a
            transform with joins either: adaptive execution may plan it better.
        of: names of columns, or expressions.
    """
    from pyspark.sql import functions as F

    conf = frame.sparkSession.conf
    adaptive = conf.get(_ADAPTIVE) or "true"
    conf.set(_ADAPTIVE, "false")
    try:
        counts = frame.agg(F.count(F.lit(1)), *(F.count(column) for column in of)).first()
    finally:
        conf.set(_ADAPTIVE, adaptive)
    return tuple(int(number) for number in expect(counts, "the row of an aggregate without groups"))
