"""Windows computed again from the records of the source, in the place of those in the table: late rows are in them.

A stream drops what comes after its watermark. Here the records are read as a batch, which has none: the result is what
the stream would have landed had nothing been late. Only windows that the stream has closed are replaced; it never
touches those again.
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
from lakeward.engine.sinks.iceberg import IcebergLanding
from lakeward.operations.backfill.write_strategy import WriteStrategy
from lakeward.platform.errors import Refused, expect, expect_type
from lakeward.spec.sql.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakeward.engine.assignment import Assignment
    from lakeward.engine.flow import Flow

MARGIN = timedelta(hours=1)
"""How far a producer's event time may run ahead of the time at which the broker writes its record."""


@dataclass(frozen=True)
class WindowRange:
    """Rows whose `column` is from `low` to `high`, both inclusive; `final`: the table must be final up to there."""

    stream: str
    table: str
    column: str
    low: datetime
    high: datetime
    final: datetime

    def condition(self) -> Column:
        """On the window's column."""
        from pyspark.sql import functions as F

        return F.col(self.column).between(*(F.timestamp_micros(F.lit(_micros(each))) for each in (self.low, self.high)))

    def expression(self, jvm: Any) -> Any:
        """The same for Iceberg."""
        of = jvm.org.apache.iceberg.expressions.Expressions
        low, high = (each.astimezone(UTC).isoformat() for each in (self.low, self.high))
        return getattr(of, "and")(of.greaterThanOrEqual(self.column, low), of.lessThanOrEqual(self.column, high))

    def standing(self, metadata: Any) -> None:
        """The stream must still have closed the windows.

        Raises:
            Refused: it was set back meanwhile.
        """
        raw = metadata.properties().get(position.key(self.stream))
        at = None if raw is None else position.parse(raw, self.stream, self.table)
        if closed(at) is None or closed(at) < self.final:  # type: ignore[operator]  # None was first
            raise Refused(
                f"Stream {self.stream} was set back while its windows were repaired",
                why=f"it has closed them up to {at.complete_through if at else 'nothing'}",
                next=f"lakeward streams status {self.stream}   then give the same command again",
                code="LW-2010",
            )


@dataclass
class Windows(WriteStrategy):
    """Into the stream's own table, in the place of the windows from `low` to `high`, as far as they are closed.

    Attributes:
        window: of the transform.
        margin: records are read from so long before `low` on.
        covers: as `range` found it.
    """

    own: SparkSession
    wanted: Assignment
    window: Window
    low: datetime
    high: datetime
    margin: timedelta = MARGIN
    covers: WindowRange | None = None
    stateful = True
    whole = "@windows-"

    @property
    def _aimed(self) -> WindowRange:
        return expect(self.covers, "the range: it is found before anything is read")

    def range(self) -> tuple[WindowRange, Position]:
        """The windows that are replaced, and where the stream is.

        Raises:
            Refused: none of them is closed.
        """
        table, stream = str(self.wanted.spec.sink.label), self.wanted.stream
        at = java.state_of(java.metadata_of(java.load(self.own, table)), stream, table).position
        until = closed(at)
        if at is None or until is None:
            raise self._refused("it has closed no window yet", f"lakeward streams status {stream}")
        final = min(self.high, until)
        low, high = self.window.within(self.low, final)
        if high < low:
            raise self._refused(
                f"no window of {self.window.length} lies whole from {self.low.isoformat()} to {final.isoformat()}; "
                f"the stream has closed those that end by {at.complete_through}",
                "wait until it has closed them (lakeward streams status shows complete_through), or widen --windows",
            )
        return WindowRange(stream, table, self.window.column, low, high, final), at

    def offsets(self, inlet: KafkaStreamSource, at: Position) -> tuple[str, str]:
        """The records that can be of these windows: from those written `margin` before the first of them, up to where
        the stream is.

        Raises:
            Refused: the topic does not have all of them any more.
        """
        begun, landed = (kafka_position.parse(each.get(inlet.name, "-")) for each in (at.begin, at.end))
        topics = sorted(landed)
        since = broker.offsets_at(inlet.cluster, topics, self.low - self.margin)
        first = broker.begin_offsets(inlet.cluster, topics)
        lost = []
        start: kafka_position.Offsets = {}
        for topic, parts in landed.items():
            for part, upto in parts.items():
                low, gone = since.get(topic, {}).get(part, 0), first.get(topic, {}).get(part, upto)
                stream_began = begun.get(topic, {}).get(part, 0)
                start.setdefault(topic, {})[part] = min(upto, max(low, stream_began))
                if gone > stream_began and low <= gone:
                    lost.append(f"{topic}/{part}: {stream_began} to {gone - 1}")
        if lost:
            raise self._refused(
                f"records that may be of these windows are not in the topic any more: {'; '.join(lost)}",
                "give a later --windows; or --margin, if no record is written so long before its event time",
            )
        return kafka_position.render(start), kafka_position.render(landed)

    def begin(self, landing: IcebergLanding) -> None:
        writer = landing.writer
        given = {each.name: getattr(writer, each.name) for each in fields(writer) if each.init}
        landing.writer = OverwriteWriter(**{**given, "change": Append()})
        landing.mode = "append"

    def prepare(self, landing: IcebergLanding, built: Flow) -> None:
        """The window's column must be a time with a zone.

        Raises:
            Refused: it is not.
        """
        kind = built.columns[self.window.column].dataType.typeName()
        if kind != "timestamp":
            raise self._refused(f"column {self.window.column} is {kind.upper()}, not TIMESTAMP")
        super().prepare(landing, built)

    def aim(self, landing: IcebergLanding, start: str, end: str) -> None:
        expect_type(landing.writer, OverwriteWriter, "the writer").covers = self._aimed

    def sorted(self, found: RoutedRows, counted: bool) -> RoutedRows:
        """Only the windows of the range. Records that cannot be decoded are in the stream's quarantine already."""
        return RoutedRows(found.good.where(self._aimed.condition()), found.consumed, [])

    def _refused(self, why: str, next_: str = "") -> Refused:
        stream = self.wanted.stream
        return Refused(
            f"Windows of stream {stream} cannot be repaired",
            why=why,
            next=next_ or f"lakeward config show {stream}",
            code="LW-2009",
        )


def closed(at: Position | None) -> datetime | None:
    """Up to which event time a stream has closed its windows."""
    return None if at is None or at.complete_through is None else datetime.fromisoformat(at.complete_through)


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
