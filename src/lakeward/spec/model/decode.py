"""Decoding of records: how bytes become columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from lakeward.spec.model.base import SpecModel, only_one
from lakeward.spec.model.formats import DateForm, Formats, TimestampForm
from lakeward.spec.model.types import Bytes, Name
from lakeward.spec.sql.ddl import Ddl


class Avro(SpecModel):
    """Avro records, by a schema registry or by a schema file."""

    registry: Name | None = None
    """Connection id of the schema registry."""
    subject: str | None = None
    schema_file: str | None = None


class JsonForm(SpecModel):
    """The columns of a JSON object, and how their values are written. The defaults are strict."""

    schema_: Ddl = Field(alias="schema")
    """Columns of the JSON object in the record's value, as Spark DDL: `price DECIMAL(10,2), at TIMESTAMP NOT NULL`."""
    timestamps: TimestampForm = "iso"
    """How a TIMESTAMP is written: `iso` (`2026-03-01T05:00:00Z`), `epoch_s` or `epoch_ms` (a number of seconds or
    milliseconds since 1970; one of another magnitude is refused), or a pattern of Spark: `dd.MM.yyyy HH:mm:ss`. A
    pattern without a zone means UTC."""
    dates: DateForm = "iso"
    """How a DATE is written: `iso` (`2026-03-01`), or a pattern of Spark: `yyyyMMdd`."""
    decimals: Literal["text", "number"] | None = None
    """`text`: a DECIMAL is a JSON string; `number`: a JSON number. Default: either, as both are read exactly."""
    without_zone: Literal["utc", "refuse"] = "utc"
    """What an ISO TIMESTAMP without a zone is: in UTC, or refused."""

    @property
    def formats(self) -> Formats:
        """The declared formats."""
        return Formats(self.timestamps, self.dates, self.decimals, self.without_zone)


def _form(data: Any) -> str:
    return "form" if isinstance(data, dict | JsonForm) else "columns"


Json = Annotated[Annotated[Ddl, Tag("columns")] | Annotated[JsonForm, Tag("form")], Discriminator(_form)]


class Decode(SpecModel):
    """A declared schema; only a record that does not match goes to quarantine, with reason and position."""

    one_of = ("decode", ("json", "avro"))

    json_: Json | None = Field(default=None, alias="json")
    """Columns of the JSON object in the record's value, as Spark DDL: `carrier STRING, dep_delay DOUBLE`; or a block
    with `schema:` and how values are written. See [decode](decode.md)."""
    avro: Avro | None = None
    columns: Literal["value", "all"] = "value"
    """`value`: the decoded columns and the position columns; `all`: `_kafka_key` and `_kafka_headers` too."""
    max_bytes: Bytes | None = None
    """A record with a longer value goes to quarantine with the reason `too_large`, without being decoded. Default: no
    limit beyond that of the source."""

    @property
    def ddl(self) -> str | None:
        """The declared columns of a JSON object."""
        return self.json_.schema_ if isinstance(self.json_, JsonForm) else self.json_

    @property
    def formats(self) -> Formats:
        """How values are written; strict without a block."""
        return self.json_.formats if isinstance(self.json_, JsonForm) else Formats()

    @property
    def longest(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else self.max_bytes.bytes

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        only_one(type(self), {"json": self.json_, "avro": self.avro})
        return self
