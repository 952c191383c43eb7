"""What happens to the rows between source and sink."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model import SpecModel, Text, only_one
from lakeward.spec.types import PythonCallable


class Transform(SpecModel):
    """Exactly one of: SQL in place, an SQL file beside the stream's file, a Python callable.

    The loader reads `file` and hands on `sql`, and reads `python` and hands on `code` with it: a spec that was loaded,
    and every generation, holds the text itself.
    """

    one_of = ("transform", ("sql", "file", "python"))

    sql: Text | None = None
    """One SELECT in Spark SQL over the names of the sources and references."""
    file: Text | None = None
    """An SQL file, relative to the stream's file."""
    python: PythonCallable | None = None
    """A function in the project's `python/` folder: takes sources and references by name as DataFrames, gives one."""
    code: SkipJsonSchema[dict[str, str] | None] = None
    """Nobody writes it: the modules the function needs, path below `python/` -> text, as the loader found them."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        only_one("transform", {"sql": self.sql, "file": self.file, "python": self.python})
        return self
