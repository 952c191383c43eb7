"""Kafka connections: finds the brokers of a cluster, and how to connect to them, by the connection's id.

| searched | written by |
|---|---|
| `<connections>/airflow/kafka/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/kafka/<id>.properties` | a person, in librdkafka's names |
| `Runtime.kafka` | `lakeward stack up`: brokers without security |

The first match is used. Files are read each time a client is created, so a changed password needs no new launch and no
printable value has a secret.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.connectors.kafka import settings
from lakeward.connectors.kafka.settings import Settings
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime


@dataclass(frozen=True)
class Cluster:
    """The brokers of one connection.

    Attributes:
        connection: the connection's id.
        bootstrap: `host:port,host:port`.
        file: the file with the other settings, e.g. passwords; None if no other settings are needed.
    """

    connection: str
    bootstrap: str
    file: Path | None = None

    @property
    def settings(self) -> Settings:
        """All settings, read from the file each time.

        Raises:
            SpecError: the file no longer exists, or is not valid.
        """
        return Settings(self.bootstrap) if self.file is None else _read(self.connection, self.file)

    @property
    def where(self) -> str:
        """Where its settings are, for messages."""
        return self.bootstrap if self.file is None else _where(self.connection, self.file)

    @property
    def version(self) -> int:
        """A number that changes when the file changes."""
        try:
            return 0 if self.file is None else self.file.stat().st_mtime_ns
        except OSError:
            return -1

    def client(self) -> dict[str, Any]:
        """Properties of a client of librdkafka."""
        # librdkafka writes every failed connection to stderr; the raised error reports it once.
        return {**self.settings.librdkafka(), "log_level": 0}

    def consumer(self, group: str) -> dict[str, Any]:
        """Properties of a consumer with assigned partitions: it joins no group and commits no offsets, but librdkafka
        requires a group id."""
        return self.client() | {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}


def find(connection: str, runtime: Runtime) -> Cluster:
    """The cluster of a connection.

    Raises:
        SpecError: the connection does not exist, or is not valid.
    """
    for folder, suffix in _folders(runtime):
        file = folder / f"{connection}{suffix}"
        if file.exists():
            read = _read(connection, file)
            return Cluster(connection, read.bootstrap, file if read.secure else None)
    if connection in runtime.kafka:
        return Cluster(connection, runtime.kafka[connection])
    own = f"the file {runtime.connections / 'kafka' / connection}.properties" if runtime.connections else "a file"
    raise SpecError(
        f"Kafka connection {connection!r} does not exist",
        why=f"known connections: {', '.join(names(runtime)) or 'none'}",
        next=f"create it in Airflow (type kafka) or as {own} (docs/how-to/connect-to-kafka.md), "
        "or name another one under kafka: connection:",
        code="LW-3109",
    )


def names(runtime: Runtime) -> list[str]:
    """The ids of all existing connections."""
    files = {file.stem for folder, suffix in _folders(runtime) for file in folder.glob(f"[!.]*{suffix}")}
    return sorted(files | set(runtime.kafka))


def from_airflow(runtime: Runtime) -> Path | None:
    """The folder of the connections from Airflow; None if the runtime has no folder for connections."""
    return None if runtime.connections is None else runtime.connections / "airflow" / "kafka"


def _folders(runtime: Runtime) -> list[tuple[Path, str]]:
    airflow = from_airflow(runtime)
    if airflow is None or runtime.connections is None:
        return []
    return [(airflow, ".json"), (runtime.connections / "kafka", ".properties")]


def _where(connection: str, file: Path) -> str:
    return f"Airflow connection {connection}" if file.suffix == ".json" else str(file)


def _read(connection: str, file: Path) -> Settings:
    try:
        mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text()
        given: Mapping[str, object] = (
            json.loads(text) if file.suffix == ".json" else _properties(connection, file, text)
        )
    except (OSError, ValueError) as error:
        raise SpecError(
            f"Kafka connection {connection} cannot be read",
            why=f"{file}: {getattr(error, 'strerror', None) or 'it is not valid text'}",
            next="correct the file (docs/how-to/connect-to-kafka.md)",
            code="LW-3112",
        ) from None
    if mode & 0o077:
        raise SpecError(
            f"Kafka connection {connection} is readable by other users",
            why=f"{file} has mode {mode:04o}, and may have a password",
            next=f"chmod 600 {file}",
            code="LW-3110",
        )
    return settings.check(connection, _where(connection, file), given)


def _properties(connection: str, file: Path, text: str) -> Mapping[str, str]:
    """Parse `key=value` lines; lines that start with # are comments. Values have no escapes."""
    properties: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            problems.append(f"line {number} is not key=value")
        elif key.strip() in properties:
            problems.append(f"line {number} repeats {key.strip()}")
        else:
            properties[key.strip()] = value.strip()
    if problems:
        raise SpecError(
            f"Kafka connection {connection} cannot be read",
            why=f"{file}: {'; '.join(problems)}",
            next="correct the file (docs/how-to/connect-to-kafka.md)",
            code="LW-3111",
        )
    return properties
