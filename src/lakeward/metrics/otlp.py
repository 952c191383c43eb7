"""OpenTelemetry: the same samples, pushed by OTLP over HTTP to a collector or a backend.

Endpoint, headers, certificates, interval and resource attributes are those of OpenTelemetry's own environment
variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_METRIC_EXPORT_INTERVAL`,
`OTEL_RESOURCE_ATTRIBUTES`): https://opentelemetry.io/docs/specs/otel/protocol/exporter/. Names are those of Prometheus
without `_total`, and the unit is a field, so that a Prometheus that receives them by OTLP has the names of a scrape.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import (
    CardinalityLimits,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource

from lakeward import __version__
from lakeward.metrics import definitions
from lakeward.metrics.definitions import Metric
from lakeward.metrics.registry_reading import RegistryReading
from lakeward.metrics.samples import Sample
from lakeward.telemetry.mask import mask

log = structlog.get_logger(__name__)

UNITS = {"_seconds": "s", "_bytes": "By"}
"""End of a metric's name -> its unit in UCUM."""
MOST_SERIES = 1_000_000
_NO_OVERFLOW: CardinalityLimits = {ObservableCounter: MOST_SERIES, ObservableGauge: MOST_SERIES}
"""Above the SDK's own limit, 2,000, it would sum the streams that are left into one series."""


class Push:
    """Pushes all samples again and again until it is closed.

    A backend that is away is reported once when it goes and once when it answers; the pushes go on.
    """

    def __init__(self, read: Callable[[], Sequence[Sample]], *, once: bool = False) -> None:
        """Start to push.

        Args:
            read: reads all samples.
            once: only `now` pushes.
        """
        self.exporter = ReportingExporter(logs=not once)
        # The interval of a reader without a thread is infinite; None is that of the environment.
        reader = PeriodicExportingMetricReader(
            self.exporter, export_interval_millis=math.inf if once else None, cardinality_limits=_NO_OVERFLOW
        )
        self._provider = MeterProvider([reader], resource=_resource())
        meter = self._provider.get_meter("lakeward", __version__)
        reading = RegistryReading(read)
        for metric in definitions.ALL:
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            make(
                metric.name.removesuffix("_total"),
                callbacks=[_callback(metric, reading)],
                unit=_unit(metric),
                description=metric.help,
            )

    @property
    def endpoint(self) -> str:
        """Where the metrics go, without a login that the URL may have."""
        parts = urlsplit(self.exporter._endpoint)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    def now(self) -> bool:
        """Push once more; False if it was not taken."""
        self._provider.force_flush()
        return self.exporter.taken

    def close(self) -> None:
        """Push a last time and end."""
        self._provider.shutdown()


class ReportingExporter(OTLPMetricExporter):
    """Logs each change between taken and not taken, in place of the library, which logs every attempt.

    Args:
        logs: without it nothing is logged: the caller reads `taken` and `why`.

    Attributes:
        taken: whether the last push was taken.
        why: why it was not, in the library's words.
    """

    taken = True
    why = ""

    def __init__(self, *, logs: bool) -> None:
        super().__init__()
        self._logs, self._said = logs, _Said()

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **options: Any) -> Any:
        """Push; see `OTLPMetricExporter`."""
        self._said.first = ""
        result = super().export(metrics_data, timeout_millis=timeout_millis, **options)
        taken = result is MetricExportResult.SUCCESS
        self.why = "" if taken else mask(self._said.first) or "the endpoint gave no reason"
        if self._logs and taken and not self.taken:
            log.info("metrics are taken again")
        elif self._logs and self.taken and not taken:
            log.warning("metrics were not taken by the OTLP endpoint", why=self.why)
        self.taken = taken
        return result


class _Said(logging.Handler):
    """Holds the first message of the library about a push; the later ones are about its retries."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        library = logging.getLogger("opentelemetry.exporter")
        library.propagate = False
        library.handlers = [self]

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message, one line of at most 300 characters."""
        self.first = self.first or " ".join(record.getMessage().split())[:300]


def _resource() -> Resource:
    """That of the environment; the service is `lakeward` where the environment does not name it."""
    found = Resource.create()
    named = not str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found if named else found.merge(Resource({SERVICE_NAME: "lakeward"}))


def _callback(metric: Metric, reading: RegistryReading) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for sample in reading():
            if sample.metric is metric:
                yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return observe


def _unit(metric: Metric) -> str:
    name = metric.name.removesuffix("_total")
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
