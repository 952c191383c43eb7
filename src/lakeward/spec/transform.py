"""What happens to the rows between source and sink."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from lakeward.spec.model import SpecModel, Text, only_one
from lakeward.spec.types import PythonCallable


class Transform(SpecModel):
    """Exactly one of: SQL in place, an SQL file beside the stream's file, a Python callable.

    The loader reads `file` and hands on `sql`: a spec that was loaded, and every generation, holds the text itself.
    """

    one_of = ("transform", ("sql", "file", "python"))

    sql: Text | None = None
    """One SELECT in Spark SQL over the names of the sources and references."""
    file: Text | None = None
    """An SQL file, relative to the stream's file."""
    python: PythonCallable | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        only_one("transform", {"sql": self.sql, "file": self.file, "python": self.python})
        return self
