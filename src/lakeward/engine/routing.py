"""Row routing: records become rows that land, or rows for the quarantine table. Used by batches and by replays.

Each record is decoded, split off if it cannot be decoded, transformed, and judged by the rules. The input is one
DataFrame of raw records, from any source.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.source import DOUBT, REASON, StreamSource
from lakeward.engine import flow as flows
from lakeward.engine import rows, transform
from lakeward.engine.flow import Flow
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

Bad = tuple["DataFrame", int, tuple[str, ...]]
"""Invalid rows, their number, and the columns of the quarantine table that identify one."""


@dataclass(frozen=True)
class RoutedRows:
    """The result of row routing.

    Attributes:
        good: rows of the transform that land.
        consumed: number of input records.
        bad: invalid rows, in the columns of the quarantine table.
        doubtful: number of records that were decoded a second time.
    """

    good: DataFrame
    consumed: int
    bad: list[Bad]
    doubtful: int = 0


@dataclass(frozen=True)
class RowRouter:
    """Routes the records of one stream by its plan."""

    stream: str
    flow: Flow

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify a row of the transform in quarantine; its content if sources differ in them."""
        found = {source.identity for source in self.flow.sources}
        return found.pop() if len(found) == 1 else (quarantine.REASON, quarantine.RAW)

    def by_row(self, raw: DataFrame, references: Mapping[str, DataFrame], held: ExitStack) -> RoutedRows:
        """Decode, transform and judge the records, which are read once.

        Args:
            raw: records as the sources read them; with several sources, `flow.SOURCE` names that of each record.
            references: by name; they become views of the session.
            held: releases cached rows when it closes.

        Raises:
            SpecError: the SQL does not fit, or returns several rows for one record.
        """
        from pyspark.sql import functions as F

        session = raw.sparkSession
        frames = dict(references)
        for name, table in references.items():
            table.createOrReplaceTempView(name)
        consumed, doubtful, bad = 0, 0, list[Bad]()
        for source in self.flow.sources:
            own = raw if len(self.flow.sources) == 1 else raw.where(F.col(flows.SOURCE) == source.name)
            decoded, all_rows, bad_rows, in_doubt = decode(source, own, held)
            consumed, doubtful = consumed + all_rows, doubtful + in_doubt
            if bad_rows:
                bad.append((rows.undecoded(source, decoded), bad_rows, source.identity))
            frames[source.name] = flows.good(source, decoded)
            frames[source.name].createOrReplaceTempView(source.name)
        with transform.fitting(self.flow.spec, references):
            result = transform.apply(session, self.flow.spec, frames)
        good, broken, rows_out = self.judge(result, held, raw)
        if self.flow.lineage == "rows" and self.flow.joins:
            records_in = consumed - sum(number for _, number, _ in bad)
            self.one_to_one(good, records_in, rows_out)
        return RoutedRows(good, consumed, bad + broken, doubtful)

    def judge(
        self, result: DataFrame, held: ExitStack, raw: DataFrame | None = None
    ) -> tuple[DataFrame, list[Bad], int | None]:
        """Split the transform's rows by the rules. Returns valid rows, invalid rows, and the number of all rows.

        Without rules no query runs, and the number is not known (None).

        Args:
            result: of the transform.
            held: releases cached rows when it closes.
            raw: the records of the rows: an invalid row goes to quarantine with its record, if it has one.
        """
        from pyspark.sql import functions as F

        rules = {str(name): str(condition) for name, condition in self.flow.spec.rules.items()}
        if not rules:
            return result, [], None
        judged = keep(rows.judged(result, rules), held)
        rows_out, number = tally(judged, REASON)
        source = self.flow.sources[0].name if len(self.flow.sources) == 1 else "transform"
        good = judged.where(F.col(REASON).isNull()).drop(REASON)
        broken = rows.broken(judged, rules, source, self.identity)
        if number and raw is not None and self._traced(result):
            broken = keep(rows.with_record(broken, raw, self.flow.sources[0]), held)
        return good, [(broken, number, self.identity)], rows_out

    def _traced(self, result: DataFrame) -> bool:
        """Whether a row of the transform has the position of its record."""
        first = self.flow.sources[0]
        return len(self.flow.sources) == 1 and bool(first.record) and set(first.identity) <= set(result.columns)

    def one_to_one(self, result: DataFrame, records_in: int, rows_out: int | None) -> None:
        """Check that no join has returned two rows for one record.

        If no record can be dropped, equal numbers of records and rows prove it. Else the rows of each record are
        counted.

        Raises:
            SpecError: a record has several rows; names it.
        """
        from pyspark.sql import functions as F

        if self.flow.keeps_all and (result.count() if rows_out is None else rows_out) == records_in:
            return
        duplicate = result.groupBy(*self.identity).count().where(F.col("count") > 1).first()
        if duplicate is None:
            return
        record = ", ".join(f"{name}={duplicate[name]}" for name in self.identity)
        raise SpecError(
            f"The transform of stream {self.stream} returns several rows for one record",
            why=f"{record} comes out {duplicate['count']} times: a reference has several rows for one key",
            next="make the reference unique by its key, or write lineage: none in the stream's file",
            code="LW-2212",
        )


def decode(source: StreamSource, raw: DataFrame, held: ExitStack) -> tuple[DataFrame, int, int, int]:
    """Decode the records of a batch, which are read once; records in doubt are decoded a second time, from their bytes.

    Most batches have none in doubt: the rules that read them exactly are then not planned at all.

    Returns:
        The decoded records, cached; the number of all records, of bad ones, and of those in doubt.
    """
    from pyspark.sql import functions as F

    fast = keep(source.decode_fast(raw), held)
    records, marked = tally(fast, REASON)
    if not marked or not source.decodes_twice:
        return fast, records, marked, 0
    in_doubt = F.col(REASON).eqNullSafe(F.lit(DOUBT))
    settled = keep(source.decode_doubtful(fast.where(in_doubt)), held)
    doubtful, bad = tally(settled, REASON)
    if not doubtful:
        return fast, records, marked, 0
    return fast.where(~in_doubt).unionByName(settled), records, marked - doubtful + bad, doubtful


def keep(frame: DataFrame, held: ExitStack) -> DataFrame:
    """Cache rows until `held` closes."""
    kept = frame.persist()
    held.callback(kept.unpersist)
    return kept
