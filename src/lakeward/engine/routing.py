"""Sorting records into rows that land and rows that are kept aside, as a batch does it and as a replay does it again.

Row by row: decode, split off what cannot be decoded, transform, judge by the rules. What comes in is one DataFrame of
raw records, wherever it was read from.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.source import REASON
from lakeward.engine import flow as flows
from lakeward.engine import rows, transform
from lakeward.engine.flow import Flow
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

Bad = tuple["DataFrame", int, tuple[str, ...]]
"""Bad rows, how many, and the columns of the quarantine table that identify one."""


@dataclass(frozen=True)
class RoutedRows:
    """Records, sorted.

    Attributes:
        good: rows of the transform that land.
        consumed: records that came in.
        bad: what is kept aside, in the shape of the quarantine table.
    """

    good: DataFrame
    consumed: int
    bad: list[Bad]


@dataclass(frozen=True)
class RowRouter:
    """Sorts the records of one stream by its plan."""

    stream: str
    flow: Flow

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies a row of the transform in quarantine: where sources differ in that, its content."""
        found = {inlet.identity for inlet in self.flow.inlets}
        return found.pop() if len(found) == 1 else (quarantine.REASON, quarantine.RAW)

    def by_row(self, raw: DataFrame, references: Mapping[str, DataFrame], held: ExitStack) -> RoutedRows:
        """Everything from one reading of the records.

        Args:
            raw: as the inlets read it; with several of them, `flow.SOURCE` says whose a record is.
            references: by name; they become views of the session.
            held: releases what is kept meanwhile.

        Raises:
            SpecError: the SQL does not fit, or makes several rows of one record.
        """
        from pyspark.sql import functions as F

        session = raw.sparkSession
        frames = dict(references)
        for name, table in references.items():
            table.createOrReplaceTempView(name)
        consumed, bad = 0, list[Bad]()
        for inlet in self.flow.inlets:
            own = raw if len(self.flow.inlets) == 1 else raw.where(F.col(flows.SOURCE) == inlet.name)
            decoded = keep(inlet.decode(own), held)
            all_rows, bad_rows = tally(decoded, REASON)
            consumed += all_rows
            if bad_rows:
                bad.append((rows.undecoded(inlet, decoded), bad_rows, inlet.identity))
            frames[inlet.name] = flows.good(inlet, decoded)
            frames[inlet.name].createOrReplaceTempView(inlet.name)
        with transform.fitting(self.flow.spec, references):
            result = transform.apply(session, self.flow.spec, frames)
        good, broken, came_out = self.judge(result, held, raw)
        if self.flow.lineage == "rows" and self.flow.joins:
            went_in = consumed - sum(number for _, number, _ in bad)
            self.one_to_one(good, went_in, came_out)
        return RoutedRows(good, consumed, bad + broken)

    def judge(
        self, result: DataFrame, held: ExitStack, raw: DataFrame | None = None
    ) -> tuple[DataFrame, list[Bad], int | None]:
        """Split the transform's rows by the rules: good ones, bad ones, how many came out in all.

        Without rules nothing is kept and nothing is run, and how many is not known (None).

        Args:
            result: of the transform.
            held: releases what is kept meanwhile.
            raw: the records it was made of, where each row is one of them: a bad row is kept with its record.
        """
        from pyspark.sql import functions as F

        rules = {str(name): str(condition) for name, condition in self.flow.spec.rules.items()}
        if not rules:
            return result, [], None
        judged = keep(rows.judged(result, rules), held)
        came_out, number = tally(judged, REASON)
        source = self.flow.inlets[0].name if len(self.flow.inlets) == 1 else "transform"
        good = judged.where(F.col(REASON).isNull()).drop(REASON)
        broken = rows.broken(judged, rules, source, self.identity)
        if number and raw is not None and self._traced(result):
            broken = keep(rows.with_record(broken, raw, self.flow.inlets[0]), held)
        return good, [(broken, number, self.identity)], came_out

    def _traced(self, result: DataFrame) -> bool:
        """Whether the record of a row of the transform can be found again by its position."""
        first = self.flow.inlets[0]
        return len(self.flow.inlets) == 1 and bool(first.record) and set(first.identity) <= set(result.columns)

    def one_to_one(self, result: DataFrame, went_in: int, came_out: int | None) -> None:
        """A join must not make two rows of one record where each row stands for one.

        Where no record can be dropped, as many rows out as in proves it; else the rows of each record are counted.

        Raises:
            SpecError: it does; names a record.
        """
        from pyspark.sql import functions as F

        if self.flow.keeps_all and (result.count() if came_out is None else came_out) == went_in:
            return
        twice = result.groupBy(*self.identity).count().where(F.col("count") > 1).first()
        if twice is None:
            return
        record = ", ".join(f"{name}={twice[name]}" for name in self.identity)
        raise SpecError(
            f"The transform of stream {self.stream} makes several rows of one record",
            why=f"{record} comes out {twice['count']} times: a reference has several rows for one key",
            next="make the reference unique by its key, or say lineage: none in the stream's file",
            code="LW-2212",
        )


def keep(frame: DataFrame, held: ExitStack) -> DataFrame:
    """Persist until `held` closes."""
    kept = frame.persist()
    held.callback(kept.unpersist)
    return kept
