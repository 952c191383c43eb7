"""One pass over a clean batch: the write is the only Spark job, and the records are counted while it runs.

The write takes the valid rows alone, and is staged: no reader sees it. Its figures are accumulators, which Spark may
add twice for one partition, so they are a proof only together with numbers that are exact (`judge`). If a record is
invalid or in doubt, or a figure is missing or not proven, the staged rows are never published, and the batch is done
again by `RowRouter.by_row`, which counts by queries. See docs/adr/0081.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.batch import Counted, RunningBatch
from lakeward.connectors.source import REASON
from lakeward.engine import flow as flows
from lakeward.engine import rows, transform
from lakeward.engine.flow import Flow
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLEAN_BATCHES = 10
"""After a batch that had to be done again, so many batches in a row must be clean before one pass is tried again."""
_ARRIVES_S = 5.0
"""How long the figures of a finished write may take to come through Spark's listener bus."""
_ROW, _ROW_BITS = "_lw_row", (1 << 33) - 1


def suits(flow: Flow) -> bool:
    """Whether each row of a stream's transform is one record, which the same batch can read a second time."""
    return flow.linear and flow.lineage == "rows" and all(source.replays for source in flow.sources)


class Doubt(StrEnum):
    """Why a batch has to be done again."""

    AGAIN = "the rows have to be written again, and are observed once"
    MISSING = "Spark reported no figures of the write"
    INVALID = "records are invalid or in doubt"
    TWICE = "Spark counted a partition twice"
    DISAGREE = "the figures of the write disagree"


class Unproven(Exception):
    """Raised after staging: the batch has to be done again."""

    def __init__(self, doubt: Doubt) -> None:
        super().__init__(doubt.value)
        self.doubt = doubt


@dataclass(frozen=True)
class Figures:
    """What was observed during the write. Each is at least the true number; more if Spark counted a partition twice.

    Attributes:
        consumed: decoded records.
        bad: of these, the undecodable ones and those in doubt.
        partitions: the number of each partition with records, as often as it was counted.
        out: rows of the transform; `consumed` if it returns one row for each record.
        broken: of these, the rows that fail a rule.
    """

    consumed: int
    bad: int
    partitions: Sequence[int]
    out: int
    broken: int


def judge(seen: Figures | None, landed: int, most: int | None) -> Doubt | None:
    """Whether the figures of a write prove that its batch is clean; None if they do.

    An accumulator adds every successful task at least once, so `bad == 0` is certain. A task whose shuffle output was
    lost runs again and is added twice: then its partition appears twice, and no figure can be used.

    Args:
        seen: None if Spark did not report them.
        landed: rows of the staged snapshot, which is exact.
        most: the most records that the offsets of the batch can hold; None if not known.
    """
    if seen is None:
        return Doubt.MISSING
    if seen.bad or seen.broken:
        return Doubt.INVALID
    if max(Counter(seen.partitions).values(), default=0) > 1:
        return Doubt.TWICE
    if seen.out != landed or seen.consumed < landed or (most is not None and seen.consumed > most):
        return Doubt.DISAGREE
    return None


@dataclass
class Observed:
    """Implements `Counting` by what is observed while the rows are written.

    Attributes:
        good: the rows to write.
        most: of `judge`.
    """

    good: DataFrame
    most: int | None
    _decoded: Any
    _transformed: Any | None
    _written: bool = field(default=False, init=False)

    def before(self) -> None:
        """Note a write.

        Raises:
            Unproven: the rows were written before: Spark reports the figures of the first write, not of this one.
        """
        if self._written:
            raise Unproven(Doubt.AGAIN)
        self._written = True

    def after(self, landed: int) -> Counted:
        """The counts of the batch.

        Raises:
            Unproven: the batch has to be done again.
        """
        failpoints.hit("before-figures")
        seen = self._figures()
        doubt = judge(seen, landed, self.most)
        if doubt is not None or seen is None:
            raise Unproven(doubt or Doubt.MISSING)
        return Counted(seen.consumed)

    def _figures(self) -> Figures | None:
        decoded = _arrived(self._decoded)
        if decoded is None:
            return None
        consumed, partitions = int(decoded.getLong(0)), [int(each) for each in decoded.getList(2)]
        out, broken = consumed, 0
        if self._transformed is not None:
            transformed = _arrived(self._transformed)
            if transformed is None:
                return None
            out, broken = int(transformed.getLong(0)), int(transformed.getLong(1))
        return Figures(consumed, int(decoded.getLong(1)), partitions, out, broken)


@dataclass
class OnePass:
    """Decides which batches of one start of a stream are landed in one pass, and routes their rows.

    The first batch of a start is not: it may have landed before, and is then counted without being written.

    Attributes:
        flow: the stream's plan.
        possible: whether the plan and the sink allow one pass.
    """

    flow: Flow
    possible: bool
    _clean_before: int = field(default=1, init=False)

    @property
    def due(self) -> bool:
        """Whether the next batch is landed in one pass."""
        return self.possible and self._clean_before <= 0

    def counted(self, *, clean: bool) -> None:
        """Note a batch that was counted by queries.

        Args:
            clean: no record was invalid or in doubt.
        """
        self._clean_before = self._clean_before - 1 if clean else CLEAN_BATCHES

    def failed(self) -> None:
        """Note a batch that has to be done again."""
        self._clean_before = CLEAN_BATCHES

    def route(self, raw: DataFrame, batch: RunningBatch) -> Observed:
        """Decode, transform and judge the records of a batch, observed where they pass.

        Args:
            raw: records as the source reads them.
            batch: its offsets.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        source, spec = self.flow.sources[0], self.flow.spec
        decoded, transformed = Observation(), None
        numbered = source.decode_fast(raw).withColumn(_ROW, F.monotonically_increasing_id())
        valid = flows.good(source, numbered.observe(decoded, *self._of_records)).drop(_ROW)
        valid.createOrReplaceTempView(source.name)
        with transform.fitting(spec, {}):
            result = transform.apply(raw.sparkSession, spec, {source.name: valid})
        rules = {str(name): str(condition) for name, condition in spec.rules.items()}
        if rules or self.flow.filters:
            transformed = Observation()
            judged = rows.judged(result, rules).observe(transformed, *self._of_rows)
            result = judged.where(F.col(REASON).isNull()).drop(REASON)
        return Observed(result, source.most(batch.start[source.name], batch.end[source.name]), decoded, transformed)

    # Expressions belong to no session: they are made once.
    @cached_property
    def _of_records(self) -> list[Column]:
        """The number of records, of bad ones, and the partition of each first row: one for each counted task."""
        from pyspark.sql import functions as F

        row = F.col(_ROW)
        first = F.when(row.bitwiseAND(F.lit(_ROW_BITS)) == 0, F.shiftright(row, 33))
        return [
            F.count(F.lit(1)).alias("consumed"),
            F.count(REASON).alias("bad"),
            F.collect_list(first).alias("partitions"),
        ]

    @cached_property
    def _of_rows(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.count(F.lit(1)).alias("out"), F.count(REASON).alias("broken")]


def _arrived(observation: Any) -> Any | None:
    """The row of an observation's figures, None if it does not come. Spark reports them after the write, by a listener.

    PySpark's own `get` waits without a limit.
    """
    end = time.monotonic() + _ARRIVES_S
    while True:
        found = observation._jo.getRowOrEmpty()  # waits for a tenth of a second
        if found.isDefined():
            row = found.get()
            return row if row.size() else None
        if time.monotonic() > end:
            return None
