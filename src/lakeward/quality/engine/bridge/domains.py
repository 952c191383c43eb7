"""Which rows a metric is about: Great Expectations' filters as predicates, so that one pass serves them all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_RECORDER = "lakeward-recorder"


class Recorder:
    """Stands where Great Expectations filters a frame, and keeps the predicates instead of filtering."""

    def __init__(self, schema: Any, predicates: tuple[Column, ...] = ()) -> None:
        self.schema = schema
        self.predicates = predicates

    def filter(self, condition: Column | str) -> Recorder:
        """Remember one more predicate."""
        from pyspark.sql import functions as fn

        made: Any = fn.expr(condition) if isinstance(condition, str) else condition
        return Recorder(self.schema, (*self.predicates, made))


def engine_of(frame: DataFrame) -> Any:
    """An engine of GX's for this frame alone: what it caches goes with it, and nothing is persisted."""
    from great_expectations.execution_engine.sparkdf_batch_data import SparkDFBatchData
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    engine = SparkDFExecutionEngine(persist=False, spark=frame.sparkSession)
    for name, rows in ((_RECORDER, Recorder(frame.schema)), ("frame", frame)):  # the one loaded last is the active one
        engine.load_batch_data(name, SparkDFBatchData(engine, rows))
    return engine


class Domains:
    """The rows of each metric of one frame."""

    def __init__(self, engine: Any, frame: DataFrame) -> None:
        self.frame = frame
        self._engine = engine

    def predicate(self, domain: Mapping[str, Any]) -> Column | None:
        """What a row must satisfy to count; None for every row."""
        recorded = self._engine.get_domain_records({**domain, "batch_id": _RECORDER})
        return reduce(and_, recorded.predicates) if recorded.predicates else None

    def rows(self, domain: Mapping[str, Any]) -> DataFrame:
        """The frame's rows of the domain."""
        predicate = self.predicate(domain)
        return self.frame if predicate is None else self.frame.filter(predicate)
