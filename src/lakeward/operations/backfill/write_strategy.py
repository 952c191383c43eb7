"""Write strategies of a backfill: into a new table, by key, or in place of the rows of the range."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm, quarantine
from lakeward.connectors.iceberg import replay as acts
from lakeward.connectors.iceberg.change import Upsert
from lakeward.connectors.iceberg.overwrite import OverwriteWriter
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.offset_ranges import OFFSET, PARTITION, TOPIC, OffsetRange
from lakeward.engine.routing import RoutedRows
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.platform.errors import Refused, expect_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.engine.flow import Flow


class WriteStrategy:
    """Defaults of the strategies.

    Attributes:
        alone: the table belongs to the backfill and keeps its position permanently.
        stateful: the transform keeps state.
        whole: suffix of `<stream>` in the name of its position if the range is one single batch: an earlier run is then
            not continued.
    """

    alone = False
    stateful = False
    whole: str | None = None

    def begin(self, sink: IcebergStreamSink) -> None:
        """Called before the table is read."""

    def prepare(self, sink: IcebergStreamSink, built: Flow) -> None:
        """Called when the columns are known: create the table, or use its columns."""
        sink.adopt_columns(built.columns)

    def named(self, position: str) -> str:
        """The stream name under which invalid rows go to quarantine."""
        return position

    def chosen(self, raw: DataFrame) -> DataFrame:
        """The records to land."""
        return raw

    def aim(self, sink: IcebergStreamSink, start: str, end: str) -> None:
        """Called before a batch lands."""

    def sorted(self, routed: RoutedRows, counted: bool) -> RoutedRows:
        """The rows of a batch that land; raises if the batch must not land."""
        return routed


@dataclass(frozen=True)
class NewTable(WriteStrategy):
    """Lands into a table that holds nothing else."""

    table: str
    alone = True

    def prepare(self, sink: IcebergStreamSink, built: Flow) -> None:
        sink.prepare(built.columns, stateful=False)

    def named(self, position: str) -> str:
        return quarantine.quarantine_stream_name(position, self.table)


class ByKey(WriteStrategy):
    """Lands into the stream's own table by key: a row replaces an older row, never an equally new one."""

    def prepare(self, sink: IcebergStreamSink, built: Flow) -> None:
        super().prepare(sink, built)
        if isinstance(sink.writer.change, Upsert):
            sink.writer.change = replace(sink.writer.change, ties=False)


@dataclass
class InPlace(WriteStrategy):
    """Replaces the rows of the same records in the stream's own table.

    Records of the range that are in quarantine stay there: `quality replay` lands them. Records that fail now go to
    quarantine under the stream's name. So every record stays in exactly one of the two tables, as the audit expects.
    """

    own: SparkSession
    assignment: Assignment
    source: str

    def within(self, start: str, end: str) -> tuple[str, str, Position]:
        """The part of a range that the stream itself has landed, and its position.

        Raises:
            Refused: that part is empty, other streams land in the table, or the audit would be ambiguous afterwards.
        """
        table, stream = str(self.assignment.spec.sink.label), self.assignment.stream
        metadata = jvm.metadata_of(jvm.load(self.own, table))
        at = jvm.state_of(metadata, stream, table).position
        if at is None:
            raise self._refused("it has landed nothing yet", f"lakeward streams start {stream}")
        others = [name for name in jvm.others_of(metadata, stream, table) if not name.startswith(f"{stream}@")]
        if others:
            raise self._refused(f"other streams also land in {table}: {', '.join(others)}; their rows would be removed")
        if at.totals.filtered:
            raise self._refused(
                f"its transform has dropped {at.totals.filtered} records so far; how many of them are of this range is "
                "unknown, and the audit could not detect missing rows afterwards",
                f"lakeward streams backfill {stream} --from TIME --to TIME --into NAMESPACE.TABLE --dry-run",
            )
        first, last = _cut(start, end, at, self.source)
        if not any(low < last[t][p] for t, parts in first.items() for p, low in parts.items()):
            landed = f"from {at.begin.get(self.source)} to {at.end.get(self.source)}"
            raise self._refused(f"it has landed nothing of this range, only {landed}")
        return kafka_position.render(first), kafka_position.render(last), at

    def begin(self, sink: IcebergStreamSink) -> None:
        writer = sink.writer
        given = {
            column_field.name: getattr(writer, column_field.name)
            for column_field in fields(writer)
            if column_field.init
        }
        sink.writer = OverwriteWriter(**given)

    def prepare(self, sink: IcebergStreamSink, built: Flow) -> None:
        """Check that rows carry the positions of their records.

        Raises:
            Refused: they do not.
        """
        missing = {TOPIC, PARTITION, OFFSET} - set(built.columns.names)
        if missing or built.lineage != "rows":
            raise self._refused(
                "its rows do not carry their source position: "
                + (f"{', '.join(sorted(missing))} is missing" if missing else "lineage is none"),
                "keep the position columns in the transform, with lineage: rows",
            )
        super().prepare(sink, built)

    def named(self, position: str) -> str:
        return self.assignment.stream

    def chosen(self, raw: DataFrame) -> DataFrame:
        """The records without those that are in quarantine."""
        from pyspark.sql import functions as F

        quarantine_table = self._quarantine_table()
        if quarantine_table is None:
            return raw
        waiting = acts.pending(
            self.own,
            quarantine_table,
            acts.read_state(self.own, str(self.assignment.spec.sink.label), self.assignment.stream),
        )
        return raw.join(F.broadcast(waiting.select(TOPIC, PARTITION, OFFSET)), [TOPIC, PARTITION, OFFSET], "left_anti")

    def aim(self, sink: IcebergStreamSink, start: str, end: str) -> None:
        writer = expect_type(sink.writer, OverwriteWriter, "the writer")
        table = str(self.assignment.spec.sink.label)
        writer.covers = OffsetRange(self.assignment.stream, table, self.source, start, end)

    def sorted(self, routed: RoutedRows, counted: bool) -> RoutedRows:
        """Check that every record becomes a row or goes to quarantine.

        Raises:
            Refused: the transform drops some, or a record that a replay has landed fails now.
        """
        dropped = routed.consumed - routed.good.count() - sum(rows for _, rows, _ in routed.bad)
        if dropped:
            raise self._refused(
                f"its transform drops {dropped} of {routed.consumed} records of this range; the audit could not detect "
                "missing rows afterwards",
                f"lakeward streams backfill {self.assignment.stream} --from TIME --to TIME --into NAMESPACE.TABLE "
                "--dry-run",
            )
        quarantine_table = self._quarantine_table()
        if quarantine_table is None:
            return routed
        from pyspark.sql import functions as F

        whole = self.own.table(in_lake(self.own, quarantine_table))
        known = whole.where(F.col(quarantine.STREAM) == self.assignment.stream)
        for bad, rows, identity in routed.bad:
            same = list(identity)
            if rows and (repeated := bad.select(*same).join(known.select(*same), same, "left_semi").count()):
                raise self._refused(
                    f"{repeated} records of this range were replayed from quarantine and fail again",
                    "correct the rules or the decoding, then: lakeward deploy",
                )
        return routed

    def _quarantine_table(self) -> str | None:
        sink = self.assignment.spec.quarantine
        return None if sink is None else str(sink.table)

    def _refused(self, why: str, next_: str = "") -> Refused:
        stream = self.assignment.stream
        return Refused(
            f"Cannot overwrite rows of stream {stream}",
            why=why,
            next=next_ or f"lakeward streams audit {stream}   shows what it has landed",
            code="LW-2012",
        )


def _cut(start: str, end: str, at: Position, source: str) -> tuple[kafka_position.Offsets, kafka_position.Offsets]:
    """A range cut to what the stream has landed: from its first record up to its position."""
    begun, landed = (kafka_position.parse(ends.get(source, "-")) for ends in (at.begin, at.end))
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
