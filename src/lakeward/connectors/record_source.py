"""Sources of records that are bytes: how those become columns."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, StreamSource
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RecordSource(StreamSource):
    """A source whose records have a value, and columns beside it."""

    @property
    @abstractmethod
    def undecoded(self) -> str:
        """The column of the value where nobody decodes it."""

    def prepare(self) -> None:
        _ = self.decoder and self.decoder.schema

    def explain(self, bad: DataFrame) -> DataFrame:
        return bad if self.decoder is None else self.decoder.explain(bad)

    @cached_property
    def decoder(self) -> JsonDecoder | None:
        """None: the record's bytes are the columns."""
        decode = self.spec.decode
        if decode is None:
            return None
        if decode.json_ is None:
            raise SpecError(f"Source {self.name}: only decode: json: is implemented yet", code="LW-3162")
        return JsonDecoder(decode.json_, decode.longest, (*self.spec.added_columns, *self.hidden))

    def decode(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        decoder = self.decoder
        if decoder is not None:
            return decoder.apply(raw)
        nothing = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
        value = F.col(VALUE).alias(self.undecoded)
        beside = [F.col(name) for name in RECORD_COLUMNS[self.spec.connector]]
        columns = [*beside, value, *map(F.col, self.spec.position_columns), *map(F.col, self.hidden)]
        return raw.select(*columns, *nothing, F.lit(None).cast("binary").alias(RAW))
