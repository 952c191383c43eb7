"""Batches into a function of the user's own: `package.module:function`, called `(df, batch)`, at least once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SinkBatch:
    """The batch a function is called with. A batch that runs again has the same `key`, and the same records.

    Attributes:
        stream, generation: whose batch it is.
        query_id, id: the checkpoint's identity, and the batch's number in it, rising by one.
        start, end: source name -> offset, from (inclusive) and to (exclusive), `-` without data yet.
    """

    stream: str
    generation: int
    query_id: str
    id: int
    start: Mapping[str, str]
    end: Mapping[str, str]

    @property
    def key(self) -> str:
        """What the batch is known by for ever: who keeps it beside what was written can tell a repeat."""
        return f"{self.stream}/{self.query_id}/{self.id}"


Function = Callable[["DataFrame", SinkBatch], object]


def load(stream: str, name: str) -> Function:
    """The function of that name, out of what is installed where the driver runs.

    Raises:
        SpecError: it cannot be imported, or is none.
    """
    module, _, path = name.partition(":")
    step = f"install it where the driver runs, then: lakeward streams start {stream}"
    try:
        found = importlib.import_module(module)
    except Exception as error:  # the boundary to the user's module: whatever its import raises is its own mistake
        raise SpecError(
            f"The sink of stream {stream} cannot be imported",
            why=f"{name}: {type(error).__name__}: {error}",
            next=step,
        ) from error
    function = getattr(found, path, None)
    if not callable(function):
        why = f"module {module} has no function {path}" if function is None else f"{name} cannot be called"
        raise SpecError(f"The sink of stream {stream} is no function", why=why, next=step)
    made: Function = function
    return made
