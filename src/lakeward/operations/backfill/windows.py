"""Window repair: recompute closed windows from the source, with late rows, and replace them in the table.

A stream drops records that arrive after its watermark. Here they are read as a batch without a watermark: the result is
what the stream would have landed without late records. Only windows that the stream has closed are replaced; the stream
never changes those again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import jvm as java
from lakeward.connectors.iceberg.change import Append
from lakeward.connectors.iceberg.overwrite import OverwriteWriter
from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.engine.routing import RoutedRows
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.operations.backfill.write_strategy import WriteStrategy
from lakeward.platform.errors import Refused, expect, expect_type
from lakeward.spec.sql.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.engine.flow import Flow

MARGIN = timedelta(hours=1)
"""How far an event time may be ahead of the time at which the broker writes the record."""


@dataclass(frozen=True)
class WindowRange:
    """Rows whose `column` is from `low` to `high`, both inclusive; windows up to `final` must be closed."""

    stream: str
    table: str
    column: str
    low: datetime
    high: datetime
    final: datetime

    def condition(self) -> Column:
        """The condition on the window's column, for Spark."""
        from pyspark.sql import functions as F

        return F.col(self.column).between(
            *(F.timestamp_micros(F.lit(_micros(bound))) for bound in (self.low, self.high))
        )

    def expression(self, jvm: Any) -> Any:
        """The condition for Iceberg."""
        of = jvm.org.apache.iceberg.expressions.Expressions
        low, high = (bound.astimezone(UTC).isoformat() for bound in (self.low, self.high))
        return getattr(of, "and")(of.greaterThanOrEqual(self.column, low), of.lessThanOrEqual(self.column, high))

    def check_replaceable(self, metadata: Any) -> None:
        """Check that the windows are still closed.

        Raises:
            Refused: the stream was reset since.
        """
        raw = metadata.properties().get(position.key(self.stream))
        at = None if raw is None else position.parse(raw, self.stream, self.table)
        if closed(at) is None or closed(at) < self.final:  # type: ignore[operator]  # None was first
            raise Refused(
                f"Cannot repair windows of stream {self.stream}: it was reset meanwhile",
                why=f"it has closed windows up to {at.complete_through if at else 'no time'}",
                next=f"lakeward streams status {self.stream}   then repeat the command",
                code="LW-2010",
            )


@dataclass
class Windows(WriteStrategy):
    """Replaces the closed windows from `low` to `high` in the stream's own table.

    Attributes:
        window: window of the transform.
        margin: records are read from this long before `low` on.
        covers: result of `range`.
    """

    own: SparkSession
    assignment: Assignment
    window: Window
    low: datetime
    high: datetime
    margin: timedelta = MARGIN
    covers: WindowRange | None = None
    stateful = True
    whole = "@windows-"

    @property
    def _window_range(self) -> WindowRange:
        return expect(self.covers, "the range: it is found before anything is read")

    def range(self) -> tuple[WindowRange, Position]:
        """The windows to replace, and the stream's position.

        Raises:
            Refused: none of them is closed.
        """
        table, stream = str(self.assignment.spec.sink.label), self.assignment.stream
        at = java.state_of(java.metadata_of(java.load(self.own, table)), stream, table).position
        until = closed(at)
        if at is None or until is None:
            raise self._refused("the stream has closed no window yet", f"lakeward streams status {stream}")
        final = min(self.high, until)
        low, high = self.window.within(self.low, final)
        if high < low:
            raise self._refused(
                f"no closed window of {self.window.length} is between {self.low.isoformat()} and {final.isoformat()}; "
                f"the stream has closed windows that end by {at.complete_through}",
                "wait until they are closed (lakeward streams status shows complete_through), or widen --windows",
            )
        return WindowRange(stream, table, self.window.column, low, high, final), at

    def offsets(self, source: KafkaStreamSource, at: Position) -> tuple[str, str]:
        """The records that may belong to the windows: from those written `margin` before the first window up to the
        stream's position.

        Raises:
            Refused: the topic no longer has all of them.
        """
        begun, landed = (kafka_position.parse(ends.get(source.name, "-")) for ends in (at.begin, at.end))
        topics = sorted(landed)
        since = broker.offsets_at(source.cluster, topics, self.low - self.margin)
        first = broker.begin_offsets(source.cluster, topics)
        lost = []
        start: kafka_position.Offsets = {}
        for topic, parts in landed.items():
            for part, upto in parts.items():
                low, expired = since.get(topic, {}).get(part, 0), first.get(topic, {}).get(part, upto)
                stream_began = begun.get(topic, {}).get(part, 0)
                start.setdefault(topic, {})[part] = min(upto, max(low, stream_began))
                if expired > stream_began and low <= expired:
                    lost.append(f"{topic}/{part}: {stream_began} to {expired - 1}")
        if lost:
            raise self._refused(
                f"records that may belong to the windows have expired in the topic: {'; '.join(lost)}",
                "give later --windows; or a smaller --margin, if no record is written that long before its event time",
            )
        return kafka_position.render(start), kafka_position.render(landed)

    def begin(self, sink: IcebergStreamSink) -> None:
        writer = sink.writer
        given = {
            column_field.name: getattr(writer, column_field.name)
            for column_field in fields(writer)
            if column_field.init
        }
        sink.writer = OverwriteWriter(**{**given, "change": Append()})

    def prepare(self, sink: IcebergStreamSink, built: Flow) -> None:
        """Check that the window's column is a timestamp with a zone.

        Raises:
            Refused: it is not.
        """
        kind = built.columns[self.window.column].dataType.typeName()
        if kind != "timestamp":
            raise self._refused(f"the type of column {self.window.column} is {kind.upper()}, not TIMESTAMP")
        super().prepare(sink, built)

    def aim(self, sink: IcebergStreamSink, start: str, end: str) -> None:
        expect_type(sink.writer, OverwriteWriter, "the writer").covers = self._window_range

    def sorted(self, routed: RoutedRows, counted: bool) -> RoutedRows:
        """Only the windows of the range. Records that cannot be decoded already are in the stream's quarantine."""
        return RoutedRows(routed.good.where(self._window_range.condition()), routed.consumed, [])

    def _refused(self, why: str, next_: str = "") -> Refused:
        stream = self.assignment.stream
        return Refused(
            f"Cannot repair windows of stream {stream}",
            why=why,
            next=next_ or f"lakeward config show {stream}",
            code="LW-2009",
        )


def closed(at: Position | None) -> datetime | None:
    """The event time up to which a stream has closed its windows."""
    return None if at is None or at.complete_through is None else datetime.fromisoformat(at.complete_through)


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
