"""A Kafka cluster by the id of its connection: where its brokers are, and how one connects to them.

| looked for in | written by |
|---|---|
| `<connections>/airflow/kafka/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/kafka/<id>.properties` | a person, in librdkafka's names |
| `Runtime.kafka` | `lakeward stack up`: brokers without security |

The first one counts. Files are read each time a client is made, so that a changed password needs no new launch, and
no secret stands in a value that could be printed.
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
    """How the brokers of one connection are reached.

    Attributes:
        connection: the connection's id.
        bootstrap: `host:port,host:port`.
        file: where the rest stands, passwords among it; None where nothing else is needed.
    """

    connection: str
    bootstrap: str
    file: Path | None = None

    @property
    def settings(self) -> Settings:
        """Everything, read anew.

        Raises:
            SpecError: the file is gone, or wrong by now.
        """
        return Settings(self.bootstrap) if self.file is None else _read(self.connection, self.file)

    @property
    def where(self) -> str:
        """Where a person finds its settings."""
        return self.bootstrap if self.file is None else _where(self.connection, self.file)

    @property
    def version(self) -> int:
        """Another number when the file was changed."""
        try:
            return 0 if self.file is None else self.file.stat().st_mtime_ns
        except OSError:
            return -1

    def client(self) -> dict[str, Any]:
        """Properties of a client of librdkafka."""
        # librdkafka writes every refused connection to stderr; the error that is raised says it once.
        return {**self.settings.librdkafka(), "log_level": 0}

    def reader(self, group: str) -> dict[str, Any]:
        """Properties of a consumer that is told its partitions: no group is joined and nothing is committed, but the
        library wants a name for one."""
        return self.client() | {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}


def find(connection: str, runtime: Runtime) -> Cluster:
    """The cluster of a connection.

    Raises:
        SpecError: this deployment does not know the connection, or it is not in order.
    """
    for folder, suffix in _places(runtime):
        file = folder / f"{connection}{suffix}"
        if file.exists():
            found = _read(connection, file)
            return Cluster(connection, found.bootstrap, file if found.secure else None)
    if connection in runtime.kafka:
        return Cluster(connection, runtime.kafka[connection])
    own = f"the file {runtime.connections / 'kafka' / connection}.properties" if runtime.connections else "a file"
    raise SpecError(
        f"There is no Kafka connection {connection!r}",
        why=f"known connections: {', '.join(names(runtime)) or 'none'}",
        next=f"make it in Airflow (type kafka) or as {own} (docs/how-to/connect-to-kafka.md), "
        "or name another one under kafka: connection:",
        code="LW-3109",
    )


def names(runtime: Runtime) -> list[str]:
    """The ids of all connections that are known here."""
    files = {each.stem for folder, suffix in _places(runtime) for each in folder.glob(f"[!.]*{suffix}")}
    return sorted(files | set(runtime.kafka))


def from_airflow(runtime: Runtime) -> Path | None:
    """The folder of what Airflow knows; None where there is no place for it."""
    return None if runtime.connections is None else runtime.connections / "airflow" / "kafka"


def _places(runtime: Runtime) -> list[tuple[Path, str]]:
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
            why=f"{file}: {getattr(error, 'strerror', None) or 'it is no text'}",
            next="correct the file (docs/how-to/connect-to-kafka.md)",
            code="LW-3112",
        ) from None
    if mode & 0o077:
        raise SpecError(
            f"Kafka connection {connection} is open to other users",
            why=f"{file} has mode {mode:04o}, and may hold a password",
            next=f"chmod 600 {file}",
            code="LW-3110",
        )
    return settings.check(connection, _where(connection, file), given)


def _properties(connection: str, file: Path, text: str) -> Mapping[str, str]:
    """`key=value` lines; lines that begin with # say nothing. A value is taken as it stands: nothing is escaped."""
    found: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            wrong.append(f"line {number} is not key=value")
        elif key.strip() in found:
            wrong.append(f"line {number} says {key.strip()} again")
        else:
            found[key.strip()] = value.strip()
    if wrong:
        raise SpecError(
            f"Kafka connection {connection} cannot be read",
            why=f"{file}: {'; '.join(wrong)}",
            next="correct the file (docs/how-to/connect-to-kafka.md)",
            code="LW-3111",
        )
    return found
