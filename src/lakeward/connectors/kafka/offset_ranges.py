"""The rows of a range of offsets, in a table whose rows carry them."""

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
    """From `start` (inclusive) to `end` (exclusive), canonical offsets of `source`, which `stream` lands in `table`."""

    stream: str
    table: str
    source: str
    start: str
    end: str
    column = OFFSET

    @property
    def parts(self) -> list[tuple[str, int, int, int]]:
        """(topic, partition, from, to) of the partitions that have anything in it."""
        first, last = kafka_position.parse(self.start), kafka_position.parse(self.end)
        return [
            (topic, part, first[topic][part], to)
            for topic, parts in last.items()
            for part, to in parts.items()
            if first[topic][part] < to
        ]

    def condition(self) -> Column:
        """On the position columns of a row."""
        from pyspark.sql import functions as F

        each = [
            (F.col(TOPIC) == topic) & (F.col(PARTITION) == part) & (F.col(OFFSET) >= low) & (F.col(OFFSET) < high)
            for topic, part, low, high in self.parts
        ]
        return reduce(lambda a, b: a | b, each, F.lit(False))

    def expression(self, jvm: Any) -> Any:
        """The same for Iceberg."""
        of = jvm.org.apache.iceberg.expressions.Expressions
        # `and` and `or` are words of Python; Java's methods are called so.
        both, either = getattr(of, "and"), getattr(of, "or")
        each = [
            reduce(
                both,
                [
                    of.equal(TOPIC, topic), of.equal(PARTITION, part), of.greaterThanOrEqual(OFFSET, low),
                    of.lessThan(OFFSET, high),
                ],
            )
            for topic, part, low, high in self.parts
        ]  # fmt: skip
        return reduce(either, each, of.alwaysFalse())

    def standing(self, metadata: Any) -> None:
        """The stream must have passed the range: what it has not, it lands itself.

        Raises:
            Refused: it was set back meanwhile.
        """
        raw = metadata.properties().get(position.key(self.stream))
        at = position.parse(raw, self.stream, self.table).end.get(self.source, "-") if raw is not None else "-"
        passed = kafka_position.parse(at)
        behind = [f"{t}/{p}" for t, p, _, to in self.parts if passed.get(t, {}).get(p, -1) < to]
        if behind:
            raise Refused(
                f"Stream {self.stream} was set back while its rows were overwritten",
                why=f"it lands these records itself now: {', '.join(behind)} (it is at {at})",
                next=f"lakeward streams status {self.stream}   then give the same command again",
                code="LW-3115",
            )
