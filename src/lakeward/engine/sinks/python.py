"""Into a function of the user's own, which is told which batch it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeward.connectors.python import code
from lakeward.connectors.python.sink import PythonSink, SinkBatch
from lakeward.engine.assignment import Assignment
from lakeward.engine.sinks.at_least_once import AtLeastOnce
from lakeward.platform.errors import DependencyDown, LakewardError, Poison
from lakeward.platform.failures import FailureClass, judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ITS_OWN = frozenset({FailureClass.POISON, FailureClass.INFRA})


def landing(make: Callable[..., AtLeastOnce], wanted: Assignment, sink: PythonSink) -> AtLeastOnce:
    """A landing that calls the function.

    Args:
        make: makes a landing that keeps no position, of the function that writes.
    """

    def write(rows: DataFrame, number: int) -> None:
        running = made.running(number)
        batch = SinkBatch(
            wanted.stream, wanted.generation, running.query_id, number, running.start, running.end, sink.connection()
        )
        try:
            sink.function(rows, batch)
        except LakewardError:
            raise
        except Exception as error:  # the boundary to the user's code
            raise failure(wanted.stream, sink.name, error) from error

    made = make(write)
    return made


def failure(stream: str, name: str, error: Exception) -> Exception:
    """What a failure of the function means for the stream, by the words of what it raised.

    What it writes to does not answer: the batch waits. Something of the driver died: that is told as it is. Else it
    is the function, or these rows.
    """
    judged, said = judge(text=f"{type(error).__name__}: {error}"), code.summary(error)
    if judged.failure_class is FailureClass.DEPENDENCY or isinstance(error, ConnectionError | TimeoutError):
        return DependencyDown(
            f"The sink of stream {stream} does not get through: {name}", why=said,
            next="the batch waits for it, and the function is called with it again; nothing is lost",
         code="LW-2226")  # fmt: skip
    if judged.failure_class not in _ITS_OWN or judged.cause is not None:
        return error
    return Poison(
        f"The sink of stream {stream} fails on a batch: {name}", why=said,
        next=f"correct it in python/, lakeward deploy, then: lakeward streams upgrade {stream}",
     code="LW-2225")  # fmt: skip
