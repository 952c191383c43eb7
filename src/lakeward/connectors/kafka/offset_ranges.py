"""`OffsetRange`: selects the rows of a range of Kafka offsets in a table whose rows have the position columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.kafka import position as kafka_position
from lakeward.platform.errors import Refused
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column

TOPIC, PARTITION, OFFSET = IDENTITY_COLUMNS["kafka"]


@dataclass(frozen=True)
class OffsetRange:
    """The range from `start` (inclusive) to `end` (exclusive), in canonical offsets.

    Attributes:
        stream, table, source: `stream` lands records of `source` in `table`.
    """

    stream: str
    table: str
    source: str
    start: str
    end: str
    column = OFFSET

    @property
    def parts(self) -> list[tuple[str, int, int, int]]:
        """(topic, partition, from, to) of the partitions with records in the range."""
        first, last = kafka_position.parse(self.start), kafka_position.parse(self.end)
        return [
            (topic, part, first[topic][part], to)
            for topic, parts in last.items()
            for part, to in parts.items()
            if first[topic][part] < to
        ]

    def condition(self) -> Column:
        """The range as a Spark condition on the position columns."""
        from pyspark.sql import functions as F

        conditions = [
            (F.col(TOPIC) == topic) & (F.col(PARTITION) == part) & (F.col(OFFSET) >= low) & (F.col(OFFSET) < high)
            for topic, part, low, high in self.parts
        ]
        return reduce(lambda a, b: a | b, conditions, F.lit(False))

    def expression(self, jvm: Any) -> Any:
        """The range as an Iceberg expression on the position columns."""
        of = jvm.org.apache.iceberg.expressions.Expressions
        # The Java methods are named `and` and `or`, which are keywords of Python.
        both, either = getattr(of, "and"), getattr(of, "or")
        expressions = [
            reduce(
                both,
                [
                    of.equal(TOPIC, topic), of.equal(PARTITION, part), of.greaterThanOrEqual(OFFSET, low),
                    of.lessThan(OFFSET, high),
                ],
            )
            for topic, part, low, high in self.parts
        ]  # fmt: skip
        return reduce(either, expressions, of.alwaysFalse())

    def check_replaceable(self, metadata: Any) -> None:
        """Check that the stream's position is past the range; records after the position are landed by the stream.

        Raises:
            Refused: the position was set back since the range was chosen.
        """
        raw = metadata.properties().get(position.key(self.stream))
        at = position.parse(raw, self.stream, self.table).end.get(self.source, "-") if raw is not None else "-"
        passed = kafka_position.parse(at)
        behind = [f"{t}/{p}" for t, p, _, to in self.parts if passed.get(t, {}).get(p, -1) < to]
        if behind:
            raise Refused(
                f"The position of stream {self.stream} was set back while its rows were overwritten",
                why=f"the stream lands these records again itself: {', '.join(behind)} (its position is {at})",
                next=f"lakeward streams status {self.stream}   then repeat the command",
                code="LW-3115",
            )
