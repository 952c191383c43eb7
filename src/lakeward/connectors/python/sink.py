"""Batches into a function of the user's own: `package.module:function`, called `(df, batch)`, at least once."""

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
    """The batch a function is called with. A batch that runs again has the same `key`, and the same records.

    Attributes:
        stream, generation: whose batch it is.
        query_id, id: the checkpoint's identity, and the batch's number in it, rising by one.
        start, end: source name -> offset, from (inclusive) and to (exclusive), `-` without data yet.
        connection: the one that the spec names, read for this batch; None where it names none.
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
        """What the batch is known by for ever: who keeps it beside what was written can tell a repeat."""
        return f"{self.stream}/{self.query_id}/{self.id}"


Function = Callable[["DataFrame", SinkBatch], object]


@dataclass(frozen=True)
class PythonSink:
    """A function that can be called.

    Args:
        stream: whose sink it is.
        name: as the spec has it.
        function: what it names.
        connection: reads the connection it is given.
    """

    stream: str
    name: str
    function: Function
    connection: Callable[[], Connection | None] = lambda: None


def load(stream: str, sink: Sink, runtime: Runtime) -> PythonSink:
    """The function of a sink: out of the code it was deployed with, else out of what is installed here.

    Raises:
        SpecError: it cannot be imported, or is none, or its connection is not known.
    """
    name = str(sink.python)
    if sink.code is None:
        function = _installed(stream, name)
    else:
        try:
            function = code.load(name, sink.code)
        except UserCodeFailed as error:
            raise SpecError(
                f"The sink of stream {stream} cannot be used", why=f"{error.what}: {error.why}",
                next="correct it in python/, then: lakeward deploy",
             code="LW-3161") from error  # fmt: skip
    if sink.connection is None:
        return PythonSink(stream, name, function)
    wanted = str(sink.connection)
    connections.find(wanted, runtime)
    return PythonSink(stream, name, function, lambda: connections.find(wanted, runtime))


def _installed(stream: str, name: str) -> Function:
    module, _, path = name.partition(":")
    step = f"install it where the driver runs, then: lakeward streams start {stream}"
    try:
        found = importlib.import_module(module)
    except Exception as error:  # the boundary to the user's module: whatever its import raises is its own mistake
        raise SpecError(
            f"The sink of stream {stream} cannot be imported",
            why=f"{name}: {type(error).__name__}: {error}",
            next=step,
            code="LW-3160",
        ) from error
    function = getattr(found, path, None)
    if not callable(function):
        why = f"module {module} has no function {path}" if function is None else f"{name} cannot be called"
        raise SpecError(f"The sink of stream {stream} is no function", why=why, next=step, code="LW-3159")
    made: Function = function
    return made
