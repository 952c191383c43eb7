"""Late records: the ones that the state of a running query drops in a batch, found among the records of the batch.

Spark does not hand over the rows it drops. So the records of the batch, which are read a second time anyway, are judged
by what Spark judges: the event time of a deduplicated row, or the end of a row's own window, is at or before the
watermark. The watermark is the one that the operator uses for this batch, read from its plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.connectors.decode.json import KEPT_BYTES
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.row_json import row_json
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, StreamSource
from lakeward.engine import flow as flows
from lakeward.engine import rows
from lakeward.platform.errors import expect
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.late import WINDOW, select_of
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATE = "late"
"""The reason of a late record."""
_ROW, _EVENT = "_lw_row", "_lw_event"
_DROPPING = frozenset(
    {"StateStoreSaveExec", "SessionWindowStateStoreRestoreExec"}
    | {"StreamingDeduplicateExec", "StreamingDeduplicateWithinWatermarkExec"}
)
"""The operators that drop late rows."""


def watermark_of(execution: Any) -> int:
    """The watermark in milliseconds by which the running batch drops rows: the one that the batch before it left.

    It is not the watermark of the batch itself, by which state is evicted.

    Args:
        execution: the running query, from `offsets.execution_of`.

    Raises:
        Internal: the plan has no operator that drops rows, or several that do not agree.
    """
    found: set[int] = set()
    pending = [execution.lastExecution().executedPlan()]
    while pending:
        node = pending.pop()
        if node.getClass().getSimpleName() in _DROPPING:
            found.add(int(node.eventTimeWatermarkForLateEvents().get()))
        children = node.children()
        pending += [children.apply(index) for index in range(children.size())]
    return expect(found.pop() if len(found) == 1 else None, "the one watermark for late rows")


def find(decoded: DataFrame, source: StreamSource, spec: StreamSpec, watermark: int) -> DataFrame:
    """The late rows of a batch, with the columns that `records_of` needs: a record that is in several windows has
    several.

    Args:
        decoded: the decoded records of the batch.
        watermark: of `watermark_of`.
    """
    from pyspark.sql import functions as F

    valid, column = flows.good(source, decoded), str(expect(source.spec.watermark, "a watermark").column)
    if source.spec.deduplicate is not None:
        # A window behind it drops nothing: it ends after its row's event time, which has passed.
        event = F.col(quote(column))
        judged, by, shown = valid, event, event.cast("string")
    else:
        valid.createOrReplaceTempView(source.name)
        judged = decoded.sparkSession.sql(select_of(str(spec.transform.sql), column))
        window = F.col(WINDOW)
        by, shown = window["end"], F.concat_ws(" to ", window["start"].cast("string"), window["end"].cast("string"))
    whole = row_json(valid, valid.columns)
    # The watermark has milliseconds and an event microseconds. Null is not late.
    late = judged.where(F.unix_micros(by) <= F.lit(watermark * 1000))
    return late.select(*source.identity, whole.alias(_ROW), shown.alias(_EVENT))


def records_of(found: DataFrame, raw: DataFrame, source: StreamSource, watermark: int) -> DataFrame:
    """The late records, each once, in the columns of the quarantine table; `row` is the decoded record as JSON.

    Args:
        found: of `find`.
        raw: the records of the batch.
    """
    from pyspark.sql import functions as F

    identity = list(source.identity)
    each = found.groupBy(*identity).agg(
        F.first(_ROW).alias(quarantine.ROW), F.sort_array(F.collect_list(_EVENT)).alias(_EVENT)
    )
    column = expect(source.spec.watermark, "a watermark").column
    what = f"{column}: " if source.spec.deduplicate is not None else "closed windows: "
    mark = F.timestamp_millis(F.lit(watermark)).cast("string")
    judged = {
        REASON: F.lit(LATE),
        RAW: F.substring(F.col(VALUE), 1, KEPT_BYTES),
        ERROR: F.concat(F.lit(what), F.array_join(_EVENT, ", "), F.lit("; watermark: "), mark),
    }
    return rows.rejected(source, raw.join(F.broadcast(each), identity).withColumns(judged), quarantine.ROW)
