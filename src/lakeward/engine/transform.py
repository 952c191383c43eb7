"""A stream's transform on frames: SQL over the views of its sources and references, or a function of the project's."""

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
    """The transform's result, as a plan.

    Args:
        frames: sources and references by name; each is a view of `session` too, so that Python may use SQL on them.

    Raises:
        UserCodeFailed: the function fails.
        AnalysisException, ParseException: the SQL does not fit.
    """
    if spec.transform.python is not None:
        return code.call(spec.transform, frames)
    functions.register(session, spec.transform)
    return session.sql(str(spec.transform.sql))


@contextmanager
def fitting(spec: StreamSpec, references: Mapping[str, DataFrame]) -> Iterator[None]:
    """Say of SQL that does not fit, as it was written or since a reference has others, which columns those have now.

    Raises:
        SpecError: it does not.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except (AnalysisException, ParseException) as error:
        columns = "; ".join(f"{name} ({', '.join(table.columns)})" for name, table in references.items())
        raise SpecError(
            f"The transform of stream {spec.id} does not fit",
            why=first_line(error) + (f"; references now: {columns}" if columns else ""),
            next=f"correct transform: (or rules:) in conf/streams/{spec.id}.yaml, then: lakeward deploy",
            code="LW-2228",
        ) from error


def first_line(error: BaseException) -> str:
    """Spark's own sentence, without the plan it prints below."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def failures_of(stream: str, spec: StreamSpec) -> Iterator[None]:
    """Say of a batch that the project's Python failed on where in it, in short, instead of a page of Spark's trace.

    What Python says of something else (a package that is absent, an address that does not answer) stays as it is:
    its class follows from its words.

    Raises:
        Poison: its own code failed on this batch.
    """
    try:
        yield
    except Exception as error:
        said = None
        if isinstance(error, UserCodeFailed):
            said = error.why
        elif spec.transform.functions and not isinstance(error, LakewardError):
            poison = judge(text=f"{type(error).__name__}: {error}").failure_class is FailureClass.POISON
            said = code.worker_summary(str(error)) if poison else None
        if said is None:
            raise
        raise Poison(
            f"The transform of stream {stream} fails on a batch: {', '.join(spec.transform.functions)}",
            why=said,
            next=f"correct it in python/, lakeward deploy, then: lakeward streams upgrade {stream}",
            code="LW-2229",
        ) from error
