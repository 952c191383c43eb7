"""Decoding of records: how bytes become columns."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from lakeward.spec.model.base import SpecModel, only_one
from lakeward.spec.model.types import Bytes, Name
from lakeward.spec.sql.ddl import Ddl


class Avro(SpecModel):
    """Avro records, by a schema registry or by a schema file."""

    registry: Name | None = None
    """Connection id of the schema registry."""
    subject: str | None = None
    schema_file: str | None = None


class Decode(SpecModel):
    """A declared schema; only a record that does not match goes to quarantine, with reason and position."""

    one_of = ("decode", ("json", "avro"))

    json_: Ddl | None = Field(default=None, alias="json")
    """Columns of the JSON object in the record's value, as Spark DDL: `carrier STRING, dep_delay DOUBLE`."""
    avro: Avro | None = None
    columns: Literal["value", "all"] = "value"
    """`value`: the decoded columns and the position columns; `all`: `_kafka_key` and `_kafka_headers` too."""
    max_bytes: Bytes | None = None
    """A record with a longer value goes to quarantine with the reason `too_large`, without being decoded. Default: no
    limit beyond that of the source."""

    @property
    def longest(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else self.max_bytes.bytes

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        only_one("decode", {"json": self.json_, "avro": self.avro})
        return self
