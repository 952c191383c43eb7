"""Counting the rows of a batch: exact whatever the cluster does meanwhile, and as cheap as that can be.

Three ways of counting were weighed. An accumulator (and `DataFrame.observe`, which is one) counts a shuffle task again
when its output was lost. Offsets count the holes of transactional and compacted topics as records. The *result* of an
aggregate is exact: Spark returns it once, however often a task ran. It costs one job over the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.platform.errors import expect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ADAPTIVE = "spark.sql.adaptive.enabled"


def tally(frame: DataFrame, *of: Column | str) -> tuple[int, ...]:
    """How many rows there are, and of each of these columns how many values that are not null. One job.

    Planned without adaptive execution: an aggregate has nothing to adapt, and planning it stage by stage costs a batch
    a third of its counting. What the frame keeps (`persist`) is planned already, as its session has it.

    Args:
        frame: kept, or a mere reading of a source. Never the output of a stateful query: it would run twice; and not
            a transform with joins, which adaptive execution may plan better.
        of: names of columns, or expressions.
    """
    from pyspark.sql import functions as F

    conf = frame.sparkSession.conf
    adaptive = conf.get(_ADAPTIVE) or "true"
    conf.set(_ADAPTIVE, "false")
    try:
        found = frame.agg(F.count(F.lit(1)), *(F.count(column) for column in of)).first()
    finally:
        conf.set(_ADAPTIVE, adaptive)
    return tuple(int(number) for number in expect(found, "the row of an aggregate without groups"))
