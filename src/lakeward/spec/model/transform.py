"""What happens to the rows between source and sink."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model.base import Bool, KeysProblem, SpecModel, Text, only_one
from lakeward.spec.model.types import Name, PythonCallable
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import SqlProblem


def _one_type(text: str) -> str:
    if list(ddl_columns(f"r {text}")) != ["r"]:
        raise SqlProblem("one Spark type, e.g. DOUBLE or STRUCT<a: INT>")
    return text


class Udf(SpecModel):
    """A function of the project's own Python that the SQL calls."""

    python: PythonCallable
    """The function, in the project's `python/` folder."""
    returns: Annotated[Text, AfterValidator(_one_type)]
    """The Spark type of what it gives, e.g. `DOUBLE`."""
    pandas: Bool = False
    """It gets a pandas Series of each argument and gives one, instead of one value at a time."""
    deterministic: Bool = True
    """It gives the same for the same arguments; with `false` Spark moves and merges no call of it."""


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
    udfs: Annotated[dict[Name, Udf], Field(min_length=1)] | None = None
    """With `sql` or `file`: functions in Python, by the name the SQL calls them."""
    code: SkipJsonSchema[dict[str, str] | None] = None
    """Nobody writes it: the modules the function needs, path below `python/` -> text, as the loader found them."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all its functions in Python."""
        if self.python is not None:
            return (str(self.python),)
        return tuple(str(udf.python) for udf in (self.udfs or {}).values())

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        chosen = only_one("transform", {"sql": self.sql, "file": self.file, "python": self.python})
        if self.udfs and chosen == "python":
            message = "udfs are called by SQL, and this transform is a function: it registers its own"
            raise KeysProblem(message, "udfs")
        return self
