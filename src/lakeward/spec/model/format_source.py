"""Spark data sources passed on by name: `format: {name, options}`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from lakeward.spec.model.base import SpecModel, Text
from lakeward.spec.sql.ddl import Ddl

_FILES = {"parquet": "files", "json": "files", "csv": "files"}
_READ = {**_FILES, "text": "files", "orc": "files", "avro": "files", "kafka": "kafka", "iceberg": "iceberg",
         "delta": "delta", "rate": "rate", "socket": "socket", "textsocket": "socket"}  # fmt: skip
_WRITTEN = {
    **_FILES,
    "kafka": "kafka",
    "iceberg": "iceberg",
    "delta": "delta",
    "console": "console",
    "memory": "memory",
}
"""Spark format -> the Lakeward connector that keeps a position for it."""
PLACE = "checkpointlocation"


def _no_other_connectors(own: dict[str, str]) -> AfterValidator:
    def check(name: str) -> str:
        if (better := own.get(name.lower())) is not None:
            raise ValueError(f"{name} has its own connector, which keeps a position: write {better}:")
        return name

    return AfterValidator(check)


def _no_place(options: dict[str, str]) -> dict[str, str]:
    option = next((key for key in options if key.lower() == PLACE), None)
    if option is not None:
        raise ValueError(f"{option} cannot be set: the location of a checkpoint follows from the stream's id")
    return options


Options = Annotated[dict[str, str], AfterValidator(_no_place)]


class FormatSource(SpecModel):
    """Any other streaming source of Spark by its format name; at least once: only Spark's checkpoint has its
    progress."""

    name: Annotated[Text, _no_other_connectors(_READ)]
    """The data source, as Spark's `format()` takes it: a short name or a class."""
    options: Options = Field(default_factory=dict)
    """Its options. They are stored in the registry and must not contain a secret."""
    columns: Ddl | None = None
    """Its columns as Spark DDL, for a source without a schema of its own."""


class FormatSink(SpecModel):
    """Any other data source of Spark by its format name, which gets each batch; at least once."""

    name: Annotated[Text, _no_other_connectors(_WRITTEN)]
    """The data source, as Spark's `format()` takes it: a short name or a class."""
    options: Options = Field(default_factory=dict)
    """Its options. They are stored in the registry and must not contain a secret."""
