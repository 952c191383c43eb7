"""The Python sink: a function of the project, called with each batch and its identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.python import code
from lakeward.connectors.python import sink as python_sink
from lakeward.connectors.python.sink import SinkBatch
from lakeward.engine.sinks import at_least_once
from lakeward.engine.sinks.at_least_once import AtLeastOnceSink
from lakeward.engine.sinks.base import SinkContext
from lakeward.platform.errors import DependencyDown, LakewardError, Poison
from lakeward.platform.failures import FailureClass, judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_THE_FUNCTION = frozenset({FailureClass.POISON, FailureClass.INFRA})


def sink_of(context: SinkContext) -> AtLeastOnceSink:
    """Make a sink that calls the function."""
    stream, generation = context.stream, context.assignment.generation
    sink = python_sink.load(stream, context.spec.sink, context.runtime)

    def write(rows: DataFrame, running: RunningBatch) -> None:
        batch = SinkBatch(
            stream, generation, running.query_id, running.batch, running.start, running.end, sink.connection()
        )
        try:
            sink.function(rows, batch)
        except LakewardError:
            raise
        except Exception as error:  # the boundary to the user's code
            raise failure(stream, sink.name, error) from error

    return at_least_once.make(context, write)


def failure(stream: str, name: str, error: Exception) -> Exception:
    """What an error of the function means for the stream, judged by its text.

    If the system it writes to does not answer, the batch waits. If a part of the driver died, the error is kept as it
    is. Else the function or the rows are at fault.
    """
    judged, text = judge(text=f"{type(error).__name__}: {error}"), code.summary(error)
    if judged.failure_class is FailureClass.DEPENDENCY or isinstance(error, ConnectionError | TimeoutError):
        return DependencyDown(
            f"The sink of stream {stream} cannot reach its system: {name}", why=text,
            next="no action is needed: the batch waits, and the function is called with it again",
         code="LW-2226")  # fmt: skip
    if judged.failure_class not in _OF_THE_FUNCTION or judged.cause is not None:
        return error
    return Poison(
        f"The sink of stream {stream} failed on a batch: {name}", why=text,
        next=f"correct it in python/, lakeward deploy, then: lakeward streams upgrade {stream}",
     code="LW-2225")  # fmt: skip
