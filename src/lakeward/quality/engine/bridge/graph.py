"""What expectations need, as Great Expectations' own graph of metrics. The one place that walks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakeward.quality.suite.configured import Asked

FORM = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""Counts and shares; values are fetched for failed checks only, and by us."""


Graph = tuple[Any, tuple[Any, ...]]
"""An expectation of GX's, and the metrics it asks for with all those they need."""

_MOST = 5_000
_graphs: dict[tuple[str, str, str], Graph] = {}
"""By expectation, arguments and columns: what GX makes of them takes 5 ms each, and is the same from run to run."""


class Needs:
    """One check: GX's expectation and the metrics its verdict is made of.

    Args:
        asked: the check.
        engine: of GX's, for the frame.
        columns: the frame's schema as text.
    """

    def __init__(self, asked: Asked, engine: Any, columns: str) -> None:
        self.asked = asked
        key = (asked.expectation.type, repr(asked.expectation.kwargs), columns)
        if key not in _graphs:
            if len(_graphs) >= _MOST:
                _graphs.clear()
            _graphs[key] = _graph(asked, engine)
        self.expectation, self.metrics = _graphs[key]

    def all_metrics(self) -> Iterator[Any]:
        """Every metric of the graph, each after those it needs; the same one may come again."""

        def walk(metric: Any) -> Iterator[Any]:
            for dependency in metric.metric_dependencies.values():
                yield from walk(dependency)
            yield metric

        for metric in self.metrics:
            yield from walk(metric)

    @property
    def counted(self) -> Any | None:
        """The metric that counts the failing rows; None for a check that does not decide by row."""
        name = getattr(self.expectation, "map_metric", None)
        return next((each for each in self.metrics if each.metric_name == f"{name}.unexpected_count"), None)

    def verdict(self, values: dict[Any, Any], engine: Any) -> Any:
        """GX's own result from the values of the metrics."""
        return self.expectation.metrics_validate(
            metrics={metric.id: values[metric.id] for metric in self.metrics},
            runtime_configuration=_runtime(),
            execution_engine=engine,
        )


def _graph(asked: Asked, engine: Any) -> Graph:
    from great_expectations.expectations.registry import get_expectation_impl
    from great_expectations.validator.validation_graph import ValidationGraph

    expectation = get_expectation_impl(asked.expectation.type)(**asked.expectation.kwargs)
    dependencies = expectation.get_validation_dependencies(execution_engine=engine, runtime_configuration=_runtime())
    metrics = tuple(dependencies.get_metric_configurations())
    graph = ValidationGraph(execution_engine=engine)
    for metric in metrics:
        graph.build_metric_dependency_graph(metric, _runtime())
    return expectation, metrics


def _runtime() -> dict[str, Any]:
    return {"result_format": dict(FORM)}  # GX writes into it
