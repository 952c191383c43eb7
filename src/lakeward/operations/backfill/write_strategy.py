"""How the rows of a backfill get into a table: into one of their own, by key, or in the place of those of the range."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm, quarantine
from lakeward.connectors.iceberg import replay as acts
from lakeward.connectors.iceberg.change import Upsert
from lakeward.connectors.iceberg.overwrite import OverwriteWriter
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.offset_ranges import OFFSET, PARTITION, TOPIC, OffsetRange
from lakeward.engine.routing import RoutedRows
from lakeward.engine.sinks.iceberg import IcebergLanding
from lakeward.platform.errors import Refused, expect_type
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.engine.flow import Flow


class WriteStrategy:
    """What is the same for most.

    Attributes:
        alone: the table is the backfill's own, and keeps its position for good.
        stateful: it is rows of a transform with state.
        whole: what follows `<stream>` in the name of its position, where all of it is one batch: an earlier run of it
            is no part of this one.
    """

    alone = False
    stateful = False
    whole: str | None = None

    def begin(self, landing: IcebergLanding) -> None:
        """Before the table is looked at."""

    def prepare(self, landing: IcebergLanding, built: Flow) -> None:
        """The rows' columns are known: make the table, or take its columns."""
        landing.as_it_is(built.columns)

    def named(self, position: str) -> str:
        """The stream under which bad rows are put aside."""
        return position

    def chosen(self, raw: DataFrame) -> DataFrame:
        """The records that are to land."""
        return raw

    def aim(self, landing: IcebergLanding, start: str, end: str) -> None:
        """A batch is to land."""

    def sorted(self, found: RoutedRows, counted: bool) -> RoutedRows:
        """What of a batch is to land; raises where it may not."""
        return found


@dataclass(frozen=True)
class NewTable(WriteStrategy):
    """Into a table that holds nothing else."""

    table: str
    alone = True

    def prepare(self, landing: IcebergLanding, built: Flow) -> None:
        landing.prepare(built.columns, stateful=False)

    def named(self, position: str) -> str:
        return quarantine.put_aside_as(position, self.table)


class ByKey(WriteStrategy):
    """Into the stream's own table, where a row replaces one that is older, never one that is as new."""

    def prepare(self, landing: IcebergLanding, built: Flow) -> None:
        super().prepare(landing, built)
        if isinstance(landing.writer.change, Upsert):
            landing.writer.change = replace(landing.writer.change, ties=False)


@dataclass
class InPlace(WriteStrategy):
    """Into the stream's own table, in the place of the rows that came of the same records.

    What of the range is in the stream's quarantine stays there: `quality replay` lands it. What turns bad now is put
    aside as the stream's own. So each record goes on being in one of the two, and the audit counts it there.
    """

    own: SparkSession
    wanted: Assignment
    source: str

    def within(self, start: str, end: str) -> tuple[str, str]:
        """The part of a range that the stream itself has landed.

        Raises:
            Refused: there is none, others land in the table, or the audit could not tell afterwards.
        """
        table, stream = str(self.wanted.spec.sink.label), self.wanted.stream
        metadata = jvm.metadata_of(jvm.load(self.own, table))
        at = jvm.state_of(metadata, stream, table).position
        if at is None:
            raise self._refused("it has landed nothing yet", f"lakeward streams start {stream}")
        others = [name for name in jvm.others_of(metadata, stream, table) if not name.startswith(f"{stream}@")]
        if others:
            raise self._refused(f"other streams land in {table} too: {', '.join(others)}; their rows would go with it")
        if at.totals.filtered:
            raise self._refused(
                f"its transform has dropped {at.totals.filtered} records so far: which of them were of this range is "
                "not known, and the audit could not tell afterwards what is missing",
                f"lakeward streams backfill {stream} --from TIME --to TIME --into NAMESPACE.TABLE",
            )
        first, last = _cut(start, end, at, self.source)
        if not any(low < last[t][p] for t, parts in first.items() for p, low in parts.items()):
            landed = f"from {at.begin.get(self.source)} to {at.end.get(self.source)}"
            raise self._refused(f"it has landed nothing of this range, only {landed}")
        return kafka_position.render(first), kafka_position.render(last)

    def begin(self, landing: IcebergLanding) -> None:
        writer = landing.writer
        given = {each.name: getattr(writer, each.name) for each in fields(writer) if each.init}
        landing.writer = OverwriteWriter(**given)

    def prepare(self, landing: IcebergLanding, built: Flow) -> None:
        """Only rows that carry their records' positions can be found again.

        Raises:
            Refused: they do not.
        """
        missing = {TOPIC, PARTITION, OFFSET} - set(built.columns.names)
        if missing or built.lineage != "rows":
            raise self._refused(
                f"its rows do not name their records: {', '.join(sorted(missing)) or 'lineage is none'}",
                "keep the position columns in the transform, with lineage: rows",
            )
        super().prepare(landing, built)

    def named(self, position: str) -> str:
        return self.wanted.stream

    def chosen(self, raw: DataFrame) -> DataFrame:
        """Without those that wait in quarantine."""
        from pyspark.sql import functions as F

        aside = self._aside()
        if aside is None:
            return raw
        waiting = acts.pending(
            self.own, aside, acts.look(self.own, str(self.wanted.spec.sink.label), self.wanted.stream)
        )
        return raw.join(F.broadcast(waiting.select(TOPIC, PARTITION, OFFSET)), [TOPIC, PARTITION, OFFSET], "left_anti")

    def aim(self, landing: IcebergLanding, start: str, end: str) -> None:
        writer = expect_type(landing.writer, OverwriteWriter, "the writer")
        table = str(self.wanted.spec.sink.label)
        writer.covers = OffsetRange(self.wanted.stream, table, self.source, start, end)

    def sorted(self, found: RoutedRows, counted: bool) -> RoutedRows:
        """Every record must become a row or be put aside.

        Raises:
            Refused: the transform drops some; or what a replay has landed is bad now.
        """
        dropped = found.consumed - found.good.count() - sum(rows for _, rows, _ in found.bad)
        if dropped:
            raise self._refused(
                f"its transform drops {dropped} of {found.consumed} records of this range: the audit could not tell "
                "afterwards what is missing",
                f"lakeward streams backfill {self.wanted.stream} --from TIME --to TIME --into NAMESPACE.TABLE",
            )
        aside = self._aside()
        if aside is None:
            return found
        from pyspark.sql import functions as F

        whole = self.own.table(quote_table(aside, CATALOG))
        known = whole.where(F.col(quarantine.STREAM) == self.wanted.stream)
        for bad, rows, identity in found.bad:
            same = list(identity)
            if rows and (again := bad.select(*same).join(known.select(*same), same, "left_semi").count()):
                raise self._refused(
                    f"{again} records of this range were replayed from quarantine and are bad again",
                    "correct the rules or the decoding so that they are good, then: lakeward deploy",
                )
        return found

    def _aside(self) -> str | None:
        aside = self.wanted.spec.quarantine
        return None if aside is None else str(aside.table)

    def _refused(self, why: str, next_: str = "") -> Refused:
        stream = self.wanted.stream
        return Refused(
            f"Rows of stream {stream} cannot be overwritten",
            why=why,
            next=next_ or f"lakeward streams audit {stream}   shows what it has landed",
            code="LW-2012",
        )


def _cut(start: str, end: str, at: Position, source: str) -> tuple[kafka_position.Offsets, kafka_position.Offsets]:
    """A range without what lies before the stream's first record, and without what it has not landed yet."""
    begun, landed = (kafka_position.parse(each.get(source, "-")) for each in (at.begin, at.end))
    first, last = kafka_position.parse(start), kafka_position.parse(end)
    low: kafka_position.Offsets = {}
    high: kafka_position.Offsets = {}
    for topic, parts in landed.items():
        for part, upto in parts.items():
            if part not in last.get(topic, {}):
                continue
            floor = max(first[topic].get(part, 0), begun.get(topic, {}).get(part, 0))
            low.setdefault(topic, {})[part] = floor
            high.setdefault(topic, {})[part] = max(floor, min(last[topic][part], upto))
    return low, high
