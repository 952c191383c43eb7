"""`lakeward metrics`: what the registry knows, in Prometheus' format and by OpenTelemetry's protocol."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.platform import ports
from lakeward.platform.errors import Refused, SpecError

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry
    from sqlalchemy import Connection

    from lakeward.metrics.samples import Sample

app = typer.Typer(
    help="Show the metrics of streams, tables and checks, serve them to Prometheus, or push them by OpenTelemetry.",
    no_args_is_help=True,
)

PORT = 9464
"""The port that OpenTelemetry's Prometheus exporters use."""
Partitions = Annotated[bool, typer.Option("--partitions", help="Export the lag of each partition, too.")]


@app.command()
def show(partitions: Partitions = False) -> None:
    """Print the metrics once, as a scrape would see them."""
    registry = _registry(partitions)
    from prometheus_client import generate_latest

    state().output.text(generate_latest(registry).decode().rstrip("\n"))


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = PORT,
    host: Annotated[str, typer.Option(help="Address to listen on. The endpoint has no login.")] = ports.HOST,
    partitions: Partitions = False,
) -> None:
    """Answer Prometheus' scrapes at /metrics until it is stopped. Exit code 4 when the port is taken."""
    registry = _registry(partitions)
    from prometheus_client import start_http_server

    stop = threading.Event()
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise Refused(
            f"Cannot listen on {host}:{port}",
            why=str(error),
            next=f"lakeward metrics serve --port {ports.any_free()}",
            code="LW-1292",
        ) from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state().output.note(f"metrics at http://{host}:{server.server_port}/metrics")
    stop.wait()
    server.shutdown()
    thread.join()


@app.command()
def push(
    once: Annotated[bool, typer.Option("--once", help="Push once; exit code 4 if it was not taken.")] = False,
    partitions: Partitions = False,
) -> None:
    """Push the metrics by OTLP over HTTP until it is stopped, every 60 seconds.

    Endpoint, headers, certificates and interval are those of OpenTelemetry's environment variables:
    OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318), OTEL_EXPORTER_OTLP_HEADERS, OTEL_METRIC_EXPORT_INTERVAL (ms).
    """
    try:
        from lakeward.metrics import otlp
    except ImportError as error:
        raise SpecError(
            "OpenTelemetry's libraries are not installed",
            why=str(error),
            next="uv pip install 'lakeward[metrics]'",
            code="LW-1294",
        ) from error
    pushes = otlp.Push(_reader(partitions), once=once)
    if once:
        if not pushes.now():
            raise Refused(
                f"The OTLP endpoint {pushes.endpoint} did not take the metrics",
                why=pushes.exporter.why,
                next="set OTEL_EXPORTER_OTLP_ENDPOINT, and OTEL_EXPORTER_OTLP_HEADERS if it asks for a login",
                code="LW-1295",
            )
        state().output.note(f"metrics pushed to {pushes.endpoint}")
        return
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state().output.note(f"metrics go to {pushes.endpoint}")
    stop.wait()
    pushes.close()


def _registry(partitions: bool) -> CollectorRegistry:
    try:
        import prometheus_client  # noqa: F401  # asked for its presence
    except ImportError as error:
        raise SpecError(
            "The client library of Prometheus is not installed",
            why=str(error),
            next="uv pip install 'lakeward[metrics]'",
            code="LW-1293",
        ) from error
    from lakeward.metrics import exporter

    return exporter.registry_of(_reader(partitions))


def _reader(partitions: bool) -> Callable[[], Sequence[Sample]]:
    from lakeward.metrics.registry_reading import reader
    from lakeward.supervision.reconcile import backend_of

    here = state()

    def connect() -> AbstractContextManager[Connection]:
        return here.registry()

    return reader(connect, backend_of(here.runtime), partitions=partitions)
