"""A stream's transform: SQL over views of its sources and references, or a Python function of the project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeward.connectors.python import code, functions
from lakeward.connectors.python.code import UserCodeFailed
from lakeward.platform.errors import LakewardError, Poison, SpecError
from lakeward.platform.failures import FailureClass, judge
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def apply(session: SparkSession, spec: StreamSpec, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The plan of the transform's result.

    Args:
        frames: sources and references by name; each is also a view of `session`, so that Python can use SQL.

    Raises:
        UserCodeFailed: the function failed.
        AnalysisException, ParseException: the SQL does not fit.
    """
    if spec.transform.python is not None:
        return code.call(spec.transform, frames)
    functions.register(session, spec.transform)
    return session.sql(str(spec.transform.sql))


@contextmanager
def fitting(spec: StreamSpec, references: Mapping[str, DataFrame]) -> Iterator[None]:
    """Turn analysis errors of the SQL into a `SpecError` that names the columns of the references, which may have
    changed.

    Raises:
        SpecError: the SQL does not fit.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except (AnalysisException, ParseException) as error:
        columns = "; ".join(f"{name} ({', '.join(table.columns)})" for name, table in references.items())
        raise SpecError(
            f"The transform of stream {spec.id} does not fit its sources and references",
            why=first_line(error) + (f"; references now: {columns}" if columns else ""),
            next=f"correct transform: (or rules:) in conf/streams/{spec.id}.yaml, then: lakeward deploy",
            code="LW-2228",
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of a Spark error, without the plan."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def failures_of(stream: str, spec: StreamSpec) -> Iterator[None]:
    """Turn a failure of the project's Python into an error with its place in the code, without Spark's stack trace.

    Python errors of other causes (a missing package, an address that does not answer) are not changed: their class is
    judged by their text.

    Raises:
        Poison: the project's code failed on this batch.
    """
    try:
        yield
    except Exception as error:
        reason = None
        if isinstance(error, UserCodeFailed):
            reason = error.why
        elif spec.transform.functions and not isinstance(error, LakewardError):
            poison = judge(text=f"{type(error).__name__}: {error}").failure_class is FailureClass.POISON
            reason = code.worker_summary(str(error)) if poison else None
        if reason is None:
            raise
        raise Poison(
            f"The transform of stream {stream} failed on a batch: {', '.join(spec.transform.functions)}",
            why=reason,
            next=f"correct it in python/, lakeward deploy, then: lakeward streams upgrade {stream}",
            code="LW-2229",
        ) from error
