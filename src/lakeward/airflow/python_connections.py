"""Airflow's connections that sinks in Python name, as files of the home: a driver cannot ask Airflow."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lakeward.airflow import connections
from lakeward.airflow.connections import Found
from lakeward.connectors.python import connections as files
from lakeward.platform.runtime import Runtime
from lakeward.registry import generations

_FIELDS = ("host", "port", "login", "password", "schema")


def named(runtime: Runtime) -> set[str]:
    """The connections that sinks name; those known already where the registry is away."""
    return connections.named(runtime, generations.sink_connections, files.names(runtime))


def keep(runtime: Runtime, ids: Collection[str], get: Callable[[str], Found | None]) -> None:
    """Bring the files up to date with Airflow; one that it does not give stays as it was last known."""
    folder = files.from_airflow(runtime)
    if folder is not None:
        connections.keep_files(folder, ids, get, _says, lambda file: file.unlink(missing_ok=True))


def _says(_: str, found: Found) -> dict[str, object]:
    fields = {name: getattr(found, name) for name in _FIELDS}
    return {name: value for name, value in fields.items() if value} | {"extra": dict(found.extra_dejson)}
