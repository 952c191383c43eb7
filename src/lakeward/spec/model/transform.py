"""Transforms: SQL or Python between sources and sink."""

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
    """A user-defined function (UDF) of the project that the SQL calls."""

    python: PythonCallable
    """The function, in the project's `python/` folder."""
    returns: Annotated[Text, AfterValidator(_one_type)]
    """The Spark type of its result, e.g. `DOUBLE`."""
    pandas: Bool = False
    """A pandas UDF: takes a pandas Series per argument and returns one, instead of single values."""
    deterministic: Bool = True
    """Same result for the same arguments; with `false` Spark does not move or merge its calls."""


class Transform(SpecModel):
    """Exactly one of: inline SQL, an SQL file beside the stream's file, a Python callable.

    The loader replaces `file` by `sql`, and adds `code` to `python`: a loaded spec, and every generation, contains the
    text itself.
    """

    one_of = ("transform", ("sql", "file", "python"))

    sql: Text | None = None
    """One SELECT in Spark SQL over the names of the sources and references."""
    file: Text | None = None
    """An SQL file, relative to the stream's file."""
    python: PythonCallable | None = None
    """A function in the project's `python/` folder: takes sources and references by name, returns a DataFrame."""
    udfs: Annotated[dict[Name, Udf], Field(min_length=1)] | None = None
    """With `sql` or `file`: Python functions, by their name in the SQL."""
    code: SkipJsonSchema[dict[str, str] | None] = None
    """Set by the loader, not by users: the modules that the function needs, path below `python/` -> text."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all its Python functions."""
        if self.python is not None:
            return (str(self.python),)
        return tuple(str(udf.python) for udf in (self.udfs or {}).values())

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        chosen = only_one(type(self), {"sql": self.sql, "file": self.file, "python": self.python})
        if self.udfs and chosen == "python":
            message = "udfs are called by SQL, and this transform is a function: it registers its own"
            raise KeysProblem(message, "udfs")
        return self
