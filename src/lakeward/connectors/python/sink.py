"""Python sink: each batch calls a user function `package.module:function` with `(df, batch)`, at least once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeward.connectors.python import code, connections
from lakeward.connectors.python.code import UserCodeFailed
from lakeward.connectors.python.connections import Connection
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SinkBatch:
    """The batch that a function is called with. A repeated batch has the same `key` and the same records.

    Attributes:
        stream, generation: the stream and its generation.
        query_id, id: the query id of the checkpoint, and the batch number in it, rising by one.
        start, end: source name -> offset, from (inclusive) and to (exclusive), `-` without data yet.
        connection: the connection of the spec, read for this batch; None without one.
    """

    stream: str
    generation: int
    query_id: str
    id: int
    start: Mapping[str, str]
    end: Mapping[str, str]
    connection: Connection | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The idempotency key of the batch: a sink that stores it with the rows can detect a repeat."""
        return f"{self.stream}/{self.query_id}/{self.id}"


Function = Callable[["DataFrame", SinkBatch], object]


@dataclass(frozen=True)
class PythonSink:
    """A loaded sink function.

    Args:
        stream: the stream id.
        name: `package.module:function`.
        function: the loaded function.
        connection: reads the connection for a batch.
    """

    stream: str
    name: str
    function: Function
    connection: Callable[[], Connection | None] = lambda: None


def load(stream: str, sink: Sink, runtime: Runtime) -> PythonSink:
    """Load the function of a sink: from the code of the generation, otherwise from installed packages.

    Raises:
        SpecError: the import fails, it is not a function, or its connection is unknown.
    """
    name = str(sink.python)
    if sink.code is None:
        function = _installed(stream, name)
    else:
        try:
            function = code.load(name, sink.code)
        except UserCodeFailed as error:
            raise SpecError(
                f"Cannot load the sink of stream {stream}", why=f"{error.what}: {error.why}",
                next="correct the code in python/, then: lakeward deploy",
             code="LW-3161") from error  # fmt: skip
    if sink.connection is None:
        return PythonSink(stream, name, function)
    connection = str(sink.connection)
    connections.find(connection, runtime)
    return PythonSink(stream, name, function, lambda: connections.find(connection, runtime))


def _installed(stream: str, name: str) -> Function:
    module, _, path = name.partition(":")
    step = f"install it where the driver runs, then: lakeward streams start {stream}"
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # the boundary to user code: its import may raise anything
        raise SpecError(
            f"Cannot import the sink of stream {stream}",
            why=f"{name}: {type(error).__name__}: {error}",
            next=step,
            code="LW-3160",
        ) from error
    function = getattr(imported, path, None)
    if not callable(function):
        why = f"module {module} has no function {path}" if function is None else f"{name} is not callable"
        raise SpecError(f"The sink of stream {stream} is not a function", why=why, next=step, code="LW-3159")
    made: Function = function
    return made
