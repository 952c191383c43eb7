"""The settings of a Kafka connection, in librdkafka's names, and their checks.

No setting is ignored: an unknown setting is refused with its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.platform.errors import SpecError
from lakeward.spec.model.types import Brokers
from lakeward.spec.read.problems import nearest

BOOTSTRAP = "bootstrap.servers"
PROTOCOL, MECHANISM, USERNAME, PASSWORD = "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"
CA, VERIFY = "ssl.ca.location", "ssl.endpoint.identification.algorithm"
KEYS = (BOOTSTRAP, PROTOCOL, MECHANISM, USERNAME, PASSWORD, CA, VERIFY)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VERIFICATIONS = ("https", "none")
_ALIASES = {"sasl.mechanisms": MECHANISM}
_REFUSED = {
    "group.id": "Lakeward joins no consumer group: positions are stored in tables",
    "auto.offset.reset": "set starting_offsets in the stream's file",
    "enable.auto.commit": "Lakeward commits no offsets to Kafka: positions are stored in tables",
    "isolation.level": "set isolation_level in the stream's file",
    "enable.ssl.certificate.verification": f"Spark always verifies; name the certificate authority in {CA}",
    "schema": "a Kafka connection has no schema",
}
_CERTIFICATES = re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----")


@dataclass(frozen=True)
class Settings:
    """A valid connection.

    Attributes:
        bootstrap: `host:port,host:port`.
        protocol: one of PROTOCOLS.
        mechanism, username, password: with SASL; otherwise empty.
        ca: PEM file with the certificates of the trusted authorities; None: those of the machine.
        verify: whether a broker's certificate must name its host.
    """

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    verify: bool = True

    @property
    def secure(self) -> bool:
        """Whether a connection needs more than the brokers' addresses."""
        return self.protocol != "PLAINTEXT"

    @property
    def principal(self) -> str:
        """The principal in the broker's access control lists, if it is the user name."""
        return f"User:{self.username}" if self.username else "User:ANONYMOUS"

    def librdkafka(self) -> dict[str, str]:
        """Properties of a client of librdkafka, with the password."""
        properties = {BOOTSTRAP: self.bootstrap}
        if self.secure:
            properties[PROTOCOL] = self.protocol
        if self.mechanism:
            properties |= {MECHANISM: self.mechanism, USERNAME: self.username, PASSWORD: self.password}
        if self.ca is not None:
            properties[CA] = str(self.ca)
        if not self.verify:
            properties[VERIFY] = "none"
        return properties


def check(connection: str, where: str, given: Mapping[str, object]) -> Settings:
    """Check and convert the settings of a connection.

    Args:
        connection: the connection's id.
        where: the file or the Airflow connection that has the settings, for the message.
        given: the settings.

    Raises:
        SpecError: lists every setting that is unknown, missing or wrong. It repeats no value that may be secret.
    """
    settings = {_ALIASES.get(key, key): value for key, value in given.items()}
    problems = [*_unknown(given), *_wrong(settings)]
    if problems:
        raise SpecError(
            f"Kafka connection {connection} is not valid",
            why=f"{where}: {'; '.join(problems)}",
            next="correct it there (docs/how-to/connect-to-kafka.md)",
            code="LW-3120",
        )
    plain = {key: str(value).strip() for key, value in settings.items()}
    return Settings(
        re.sub(r"\s*,\s*", ",", plain[BOOTSTRAP]),
        _protocol(plain),
        plain.get(MECHANISM, "").upper(),
        plain.get(USERNAME, ""),
        str(settings.get(PASSWORD, "")),
        Path(plain[CA]) if CA in plain else None,
        plain.get(VERIFY, "https").lower() == "https",
    )


def _protocol(given: Mapping[str, object]) -> str:
    return str(given.get(PROTOCOL, "PLAINTEXT")).strip().upper()


def _unknown(given: Mapping[str, object]) -> Iterator[str]:
    for key in given:
        if key in KEYS or key in _ALIASES:
            if _ALIASES.get(key, "") in given:
                yield f"{key} and {_ALIASES[key]} are the same setting"
        elif key in _REFUSED:
            yield f"{key} is not supported: {_REFUSED[key]}"
        else:
            like = nearest(key, KEYS)
            yield f"{key} is unknown; " + (f"did you mean {like}?" if like else f"valid: {', '.join(KEYS)}")


def _wrong(given: Mapping[str, object]) -> Iterator[str]:
    for key in KEYS:
        if key in given and (not isinstance(given[key], str) or not str(given[key]).strip()):
            yield f"{key} must be a text that is not empty"
            return  # the other checks need texts
    yield from _brokers(given)
    yield from _one_of(PROTOCOL, _protocol(given), PROTOCOLS)
    sasl, ssl = _protocol(given).startswith("SASL_"), _protocol(given).endswith("SSL")
    for key in (MECHANISM, USERNAME, PASSWORD):
        if sasl and key not in given:
            valid = f"; valid: {', '.join(MECHANISMS)}" if key == MECHANISM else ""
            yield f"{key} is missing; {PROTOCOL} {_protocol(given)} needs it{valid}"
        elif not sasl and key in given:
            yield f"{key} needs {PROTOCOL} SASL_SSL or SASL_PLAINTEXT, not {_protocol(given)}"
    for key in (CA, VERIFY):
        if not ssl and key in given:
            yield f"{key} needs {PROTOCOL} SSL or SASL_SSL, not {_protocol(given)}"
    if sasl and MECHANISM in given:
        yield from _one_of(MECHANISM, str(given[MECHANISM]).strip().upper(), MECHANISMS)
    if ssl and VERIFY in given:
        yield from _one_of(VERIFY, str(given[VERIFY]).strip().lower(), VERIFICATIONS)
    if ssl and CA in given:
        yield from _authority(Path(str(given[CA]).strip()))


def _brokers(given: Mapping[str, object]) -> Iterator[str]:
    if BOOTSTRAP not in given:
        yield f"{BOOTSTRAP} is missing: {Brokers.syntax}"
    elif not Brokers.pattern.fullmatch(re.sub(r"\s*,\s*", ",", str(given[BOOTSTRAP]).strip())):
        yield f"{BOOTSTRAP} is not valid: {Brokers.syntax}"


def _one_of(key: str, value: str, valid: tuple[str, ...]) -> Iterator[str]:
    if value not in valid:
        yield f"{key} {value} is not supported; valid: {', '.join(valid)}"


def _authority(file: Path) -> Iterator[str]:
    """Check the certificate file. A wrong path would end in a time-out of the handshake that does not name the file."""
    if not file.is_absolute():
        yield f"{CA} {file} must be an absolute path: a driver does not run in this folder"
        return
    try:
        if not _CERTIFICATES.search(file.read_text()):
            yield f"{CA} {file} has no certificate in PEM format"
    except (OSError, ValueError) as error:
        yield f"{CA} {file} cannot be read: {getattr(error, 'strerror', None) or 'it is not valid text'}"
