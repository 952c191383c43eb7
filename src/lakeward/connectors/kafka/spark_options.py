"""Options of Spark's Kafka source and sink: what its Java client needs to connect, and no secret among it.

Options stand in plans, in the UI and in the event log. The user and the password are in a private file, which Kafka's
own config provider reads inside the client: the option says only where. Executors read the same path.
"""

from __future__ import annotations

from pathlib import Path

from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.settings import Settings
from lakeward.platform import private
from lakeward.platform.errors import SpecError, expect

JAAS = "sasl.jaas.config"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def options(cluster: Cluster) -> dict[str, str]:
    """Options with `kafka.` before them; writes the private file anew where it has changed.

    Raises:
        SpecError: the connection is not in order any more, or the private file cannot be written.
    """
    settings = cluster.settings
    found = {"bootstrap.servers": settings.bootstrap}
    if settings.secure:
        found["security.protocol"] = settings.protocol
    if settings.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(settings.ca)}
    if not settings.verify:
        found["ssl.endpoint.identification.algorithm"] = ""
    if settings.mechanism:
        file = _secrets(cluster, settings)
        found |= {
            "sasl.mechanism": settings.mechanism,
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(file.parent),
            JAAS: f"${{file:{file}:{JAAS}}}",
        }
    return {f"kafka.{key}": value for key, value in found.items()}


def file_of(connection: Path) -> Path:
    """Where the login of a connection stands, beside the connection's own file."""
    return connection.parent / "java" / f"{connection.stem}.properties"


def _secrets(cluster: Cluster, settings: Settings) -> Path:
    """The file with the login, beside the connection's own."""
    connection = expect(cluster.file, "the file of a connection with a login")
    text = f"{JAAS}={escaped(login(settings))}\n"
    try:
        file = file_of(connection)
        private.update(file, text)
    except OSError as error:
        raise SpecError(
            f"Kafka connection {cluster.connection} cannot be handed to Spark",
            why=f"its login goes into {connection.parent / 'java'}: {error.strerror}",
            next="let the user Lakeward runs as write there",
            code="LW-3122",
        ) from None
    return file


def login(settings: Settings) -> str:
    """The JAAS line of a login."""
    user, password = (f'"{_quoted(each)}"' for each in (settings.username, settings.password))
    return f"{_MODULES[settings.mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    """As a word in JAAS's quotes has it."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def escaped(text: str) -> str:
    """As a value in a file of Java's properties has it, in plain ASCII."""
    units = text.replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
