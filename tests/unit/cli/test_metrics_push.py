"""`lakeward metrics push`: an OTLP endpoint gets what a scrape gets."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import structlog
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakeward.metrics import definitions, otlp
from lakeward.metrics.samples import Sample
from lakeward.platform.errors import DependencyDown


class Endpoint(ThreadingHTTPServer):
    """Takes OTLP over HTTP on loopback.

    Attributes:
        taken, headers: each request and its headers.
        status: what it answers.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.taken.append(ExportMetricsServiceRequest.FromString(body))
        self.server.headers.append(dict(self.headers))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def endpoint(monkeypatch) -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer canary")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def values(request: ExportMetricsServiceRequest) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of the definition ..) -> value."""
    found = {}
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    for metric in scope.metrics:
        points = metric.sum.data_points or metric.gauge.data_points
        defined = definitions.BY_NAME.get(metric.name) or definitions.BY_NAME[f"{metric.name}_total"]
        for point in points:
            labels = {each.key: each.value.string_value for each in point.attributes}
            value = getattr(point, point.WhichOneof("value"))
            found[defined.name, *(labels[name] for name in defined.labels)] = float(value)
    return found


def test_one_push_has_every_sample_with_units_and_attributes(endpoint):
    # More streams than the SDK's limit of series of an instrument (2,000).
    streams = [Sample(definitions.LAG_RECORDS, float(number), (f"stream-{number}",)) for number in range(3_000)]
    others = [
        Sample(definitions.REGISTRY_UP, 1.0),
        Sample(definitions.LAG_SECONDS, 3.5, ("s",)),
        Sample(definitions.BATCHES, 7.0, ("s",)),
        Sample(definitions.TABLE_BYTES, 1000.0, ("t",)),
    ]
    pushes = otlp.Push(lambda: [*streams, *others], once=True)
    assert pushes.now()
    [request] = endpoint.taken
    assert values(request) == {(each.metric.name, *each.labels): each.value for each in (*streams, *others)}
    [resource] = request.resource_metrics
    by_name = {each.name: each for each in resource.scope_metrics[0].metrics}
    assert (by_name["lakeward_stream_lag_seconds"].unit, by_name["lakeward_table_size_bytes"].unit) == ("s", "By")
    assert by_name["lakeward_stream_batches"].sum.is_monotonic
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "lakeward"
    assert endpoint.headers[0]["authorization"] == "Bearer canary"


def test_a_registry_that_is_away_pushes_that_alone(endpoint):
    def read() -> list[Sample]:
        raise DependencyDown("The registry does not answer", why="refused", next="start it", code="LW-0000")

    assert otlp.Push(read, once=True).now()
    assert values(endpoint.taken[0]) == {("lakeward_registry_up",): 0.0}


def test_a_push_that_is_not_taken_is_refused_in_words_without_the_header(site, endpoint, monkeypatch):
    answer = site.lakeward("metrics", "push", "--once")
    assert answer.code == 0, answer.err
    assert values(endpoint.taken[0])["lakeward_registry_up",] == 1.0
    endpoint.status = 401
    answer = site.lakeward("metrics", "push", "--once")
    assert answer.code == 4
    assert "did not take the metrics" in answer.err and "OTEL_EXPORTER_OTLP_ENDPOINT" in answer.err
    assert answer.err.count("401") == 1, answer.err
    assert "canary" not in answer.err + answer.out


def test_an_endpoint_that_is_away_is_logged_once_and_once_when_it_answers(endpoint):
    pushes = otlp.Push(lambda: [Sample(definitions.REGISTRY_UP, 1.0)])
    endpoint.status = 400
    with structlog.testing.capture_logs() as logged:
        taken = [pushes.now(), pushes.now()]
        endpoint.status = 200
        taken += [pushes.now(), pushes.now()]
        pushes.close()
    assert taken == [False, False, True, True]
    assert [each["event"] for each in logged] == [
        "metrics were not taken by the OTLP endpoint", "metrics are taken again",
    ]  # fmt: skip
    assert "400" in logged[0]["why"]
