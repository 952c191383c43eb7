"""Options of Spark's Kafka source and sink: what the Java client needs to connect, without secrets.

Options are visible in plans, in the Spark UI and in the event log. User and password are in a private file, which
Kafka's own config provider reads inside the client: the option has only its path. Executors read the same path.
"""

from __future__ import annotations

from pathlib import Path

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.settings import Settings
from lakeward.platform import private
from lakeward.platform.errors import SpecError, expect

JAAS = "sasl.jaas.config"
REBOOTSTRAP = {"metadata.recovery.strategy": "rebootstrap"}
"""A client that finds none of the brokers that it knows asks the bootstrap addresses again. Without it Spark's
producers, which live as long as their JVM uses them, never find brokers that moved to other addresses."""
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def options(cluster: Cluster) -> dict[str, str]:
    """The options, with the prefix `kafka.`; rewrites the private file if the login changed.

    Raises:
        SpecError: the connection is no longer valid, or the private file cannot be written.
    """
    settings = cluster.settings
    properties = {"bootstrap.servers": settings.bootstrap, **REBOOTSTRAP}
    if settings.secure:
        properties["security.protocol"] = settings.protocol
    if settings.ca is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(settings.ca)}
    if not settings.verify:
        properties["ssl.endpoint.identification.algorithm"] = ""
    if settings.mechanism:
        file = _secrets(cluster, settings)
        properties |= {
            "sasl.mechanism": settings.mechanism,
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(file.parent),
            JAAS: f"${{file:{file}:{JAAS}}}",
        }
    return {f"kafka.{key}": value for key, value in properties.items()}


def file_of(connection: Path) -> Path:
    """The private file with the login of a connection, in a folder beside the connection's file."""
    return connection.parent / "java" / f"{connection.stem}.properties"


def _secrets(cluster: Cluster, settings: Settings) -> Path:
    """Write the private file with the login."""
    connection = expect(cluster.file, "the file of a connection with a login")
    text = f"{JAAS}={escaped(login(settings))}\n"
    try:
        file = file_of(connection)
        private.update(file, text)
    except OSError as error:
        raise SpecError(
            f"The login of Kafka connection {cluster.connection} cannot be written for Spark",
            why=f"folder {connection.parent / 'java'}: {error.strerror}",
            next="give the user that runs Lakeward write access to the folder",
            code="LW-3122",
        ) from None
    return file


def login(settings: Settings) -> str:
    """The JAAS line of a login."""
    user, password = (f'"{_quoted(text)}"' for text in (settings.username, settings.password))
    return f"{_MODULES[settings.mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    """`text` escaped for a quoted word in a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def escaped(text: str) -> str:
    """`text` escaped for a value in a Java properties file, in ASCII."""
    units = text.replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
