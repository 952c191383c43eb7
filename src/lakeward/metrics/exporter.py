"""Prometheus: samples as families of `prometheus_client`, collected for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from lakeward.metrics import definitions
from lakeward.metrics.registry_reading import RegistryReading
from lakeward.metrics.samples import Sample

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family


class RegistryCollector(Collector):
    """Collects the samples of a reading for each scrape."""

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._reading = RegistryReading(read)

    def collect(self) -> Iterator[Family]:
        """The metrics as families of `prometheus_client`."""
        yield from families(self._reading())


def registry_of(read: Callable[[], Sequence[Sample]]) -> CollectorRegistry:
    """A registry of `prometheus_client` with Lakeward's metrics alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RegistryCollector(read))
    return registry


def families(found: Sequence[Sample]) -> Iterator[Family]:
    """Samples by metric, in the order of the definitions."""
    by_name: dict[str, list[Sample]] = {}
    for sample in found:
        by_name.setdefault(sample.metric.name, []).append(sample)
    for metric in definitions.ALL:
        if metric.name not in by_name:
            continue
        family: GaugeMetricFamily | CounterMetricFamily
        if metric.kind == "counter":
            family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
        else:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in by_name[metric.name]:
            family.add_metric(sample.labels, sample.value)
        yield family
