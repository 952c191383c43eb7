"""Base class of sources whose records are bytes (Kafka, Kinesis), with the decoder of these bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from lakeward.connectors.decode.ahead import SENT, AheadOfClock
from lakeward.connectors.decode.json import KEPT_BYTES, JsonDecoder
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, StreamSource
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RecordSource(StreamSource):
    """A source whose records have a binary value and further columns."""

    @property
    @abstractmethod
    def undecoded(self) -> str:
        """The name of the value column when the spec has no `decode`."""

    def prepare(self) -> None:
        _ = self.decoder and self.decoder.schema

    def explain(self, bad: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        if self.decoder is None:
            return bad.withColumn(RAW, F.substring(F.col(RAW), 1, KEPT_BYTES))
        if self._ahead is None:
            return self.decoder.explain(bad)
        # What the decoder says of a record from the future is nothing: its error is carried past it.
        explained = self.decoder.explain(bad.withColumn(SENT, F.col(ERROR)))
        return explained.withColumn(ERROR, F.coalesce(F.col(SENT), F.col(ERROR))).drop(SENT)

    @cached_property
    def _ahead(self) -> AheadOfClock | None:
        """What judges events ahead of the wall clock; None without a bound."""
        mark, most = self.spec.watermark, self.spec.max_ahead
        return None if mark is None or most is None else AheadOfClock(str(mark.column), most)

    @cached_property
    def decoder(self) -> JsonDecoder | None:
        """The decoder; None without `decode` in the spec: the value stays binary."""
        decode = self.spec.decode
        if decode is None:
            return None
        if decode.ddl is None:
            raise SpecError(
                f"Cannot decode source {self.name}",
                why="only decode: {json: ..} is implemented yet",
                next="declare decode: {json: ..}, then: lakeward deploy",
                code="LW-3162",
            )
        hidden = (*self.hidden, SENT) if self._ahead is not None else self.hidden
        return JsonDecoder(decode.ddl, decode.longest, (*self.spec.added_columns, *hidden), decode.formats)

    def decode(self, raw: DataFrame) -> DataFrame:
        decoder = self.decoder
        return self._judged(raw, VALUE, self._undecoded if decoder is None else decoder.apply)

    @property
    def decodes_twice(self) -> bool:
        return self.decoder is not None

    def decode_fast(self, raw: DataFrame) -> DataFrame:
        decoder = self.decoder
        return self._judged(raw, VALUE, self._undecoded if decoder is None else decoder.apply_fast)

    def decode_doubtful(self, doubtful: DataFrame) -> DataFrame:
        decoder = self.decoder
        return doubtful if decoder is None else self._judged(doubtful, RAW, decoder.apply_strict)

    def _judged(self, frame: DataFrame, sent: str, decode: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Decoded records, with those from the future marked as bad. `sent`: the column of a record's bytes."""
        from pyspark.sql import functions as F

        if self._ahead is None:
            return decode(frame)
        return self._ahead.judged(decode(frame.withColumn(SENT, F.col(sent))))

    def _undecoded(self, raw: DataFrame) -> DataFrame:
        """Raw records whose value stays binary."""
        from pyspark.sql import functions as F

        hidden = [SENT] if self._ahead is not None else []
        no_error = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
        value = F.col(VALUE).alias(self.undecoded)
        others = [F.col(name) for name in RECORD_COLUMNS[self.spec.connector]]
        columns = [*others, value, *map(F.col, self.spec.position_columns), *map(F.col, (*self.hidden, *hidden))]
        return raw.select(*columns, *no_error, F.lit(None).cast("binary").alias(RAW))
