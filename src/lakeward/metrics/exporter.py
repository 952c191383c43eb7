"""The exporter: one process that answers Prometheus' scrapes from the registry.

It asks the registry a fixed number of queries, however many streams there are, at most once in `CACHE_S` for all
scrapers. While the registry is away it exports `lakeward_registry_up 0` and nothing else: old figures would look new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from lakeward.metrics import definitions, samples
from lakeward.metrics.samples import Sample, Tables
from lakeward.platform.errors import LakewardError
from lakeward.registry import maintenance, verifications
from lakeward.supervision.observe import Connect
from lakeward.supervision.report.material import observe_all
from lakeward.tables import changes

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from lakeward.supervision.backends.base import Backend

log = structlog.get_logger(__name__)

CACHE_S = 3.0


class RegistryCollector(Collector):
    """Collects everything anew for each scrape, or what was collected less than `CACHE_S` ago.

    Args:
        read: reads all samples.
    """

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._newest: tuple[float, Sequence[Sample]] | None = None
        self._failure = ""

    def collect(self) -> Iterator[Family]:
        """The metrics as families of `prometheus_client`."""
        yield from families(self._samples())

    def _samples(self) -> Sequence[Sample]:
        with self._lock:  # scrapers that come at once share one reading
            if self._newest is not None and time.monotonic() - self._newest[0] < CACHE_S:
                return self._newest[1]
            try:
                found, failure = self._read(), ""
            except (LakewardError, OSError) as error:
                found, failure = [Sample(definitions.REGISTRY_UP, 0.0)], str(error)
            if failure != self._failure:
                if failure:
                    log.warning("metrics are not available", why=failure)
                else:
                    log.info("metrics are available again")
                self._failure = failure
            self._newest = (time.monotonic(), found)
            return found


def reader(connect: Connect, backend: Backend, *, partitions: bool = False) -> Callable[[], list[Sample]]:
    """Reads all samples from the registry; see `samples.of_everything`."""

    def read() -> list[Sample]:
        view = observe_all(connect, backend)
        with connect() as connection:
            runs = verifications.newest_of_tables(connection)
            checks = verifications.checks_of_runs(connection, [run["run"] for run in runs]) if runs else {}
            tables = Tables(
                maintenance.all_tables(connection),
                maintenance.newest_figures(connection),
                maintenance.due_since(connection),
                [(run, checks.get(run["run"], [])) for run in runs],
                changes.newest(connection),
            )
        return samples.of_everything(view, tables, partitions=partitions)

    return read


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
