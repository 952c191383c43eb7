"""Airflow's Kafka connections as files of the home, for drivers and for the command line, which cannot ask Airflow.

Each task writes those that streams name. What stands in one is judged by whoever uses it: a connection that is wrong
stops the streams that name it and nothing else. One that Airflow does not give stays as it was last known, for a
secrets backend that is away looks like one that was removed; it goes when no stream names it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from lakeward.airflow import connections
from lakeward.airflow.connections import KAFKA, Found
from lakeward.connectors.kafka import cluster, spark_options
from lakeward.connectors.kafka.settings import BOOTSTRAP, PASSWORD, USERNAME
from lakeward.platform.runtime import Runtime
from lakeward.registry import generations


def named(runtime: Runtime) -> set[str]:
    """The connections that streams name; those known already where the registry is away."""
    return connections.named(
        runtime, lambda registry: {KAFKA, *generations.kafka_connections(registry)}, cluster.names(runtime)
    )


def keep(runtime: Runtime, ids: Collection[str], get: Callable[[str], Found | None]) -> None:
    """Bring the files up to date with Airflow.

    Args:
        get: the Airflow connection of an id; None where there is none.
    """

    def says(name: str, found: Found) -> dict[str, object] | None:
        content = given(found)
        return None if content == {BOOTSTRAP: runtime.kafka.get(name)} else content

    folder = cluster.from_airflow(runtime)
    if folder is not None:
        connections.keep_files(folder, ids, get, says, _remove)


def _remove(file: Path) -> None:
    """With the login that Spark reads."""
    for each in (file, spark_options.file_of(file)):
        each.unlink(missing_ok=True)


def given(connection: Found) -> dict[str, object]:
    """What a connection says, in librdkafka's names: its extra, and its own fields where the extra lacks them."""
    fields: dict[str, object] = {
        BOOTSTRAP: f"{connection.host}:{connection.port or 9092}" if connection.host else None,
        USERNAME: connection.login,
        PASSWORD: connection.password,
        "schema": connection.schema,
    }
    return {key: value for key, value in fields.items() if value} | dict(connection.extra_dejson)
