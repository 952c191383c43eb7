"""A real broker behind SASL_SSL with access control, and the certificates and users it needs.

The plain listener belongs to a super user: tests make topics, users and permissions through it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lakeward.platform import ports
from lakeward.stack.kafka import Kafka

PLAIN_USER, PLAIN_PASSWORD = "sender", "plain-hush"


@dataclass(frozen=True)
class SecureKafka(Kafka):
    """The embedded broker with one more listener.

    Attributes:
        tls_port: SASL_SSL, mechanisms SCRAM-SHA-256 and PLAIN.
    """

    tls_port: int

    @property
    def secure_bootstrap(self) -> str:
        return f"{ports.HOST}:{self.tls_port}"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def certificates(self) -> None:
        """An authority of its own, and the broker's certificate for 127.0.0.1."""
        name = self.folder / "broker"
        (self.folder / "san").write_text(f"subjectAltName=IP:{ports.HOST}\n")
        for command in (
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test-authority "
            f"-keyout {self.folder}/ca.key -out {self.ca}",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=broker "
            f"-keyout {name}.key -out {name}.csr",
            f"x509 -req -in {name}.csr -CA {self.ca} -CAkey {self.folder}/ca.key -CAcreateserial -days 2 "
            f"-extfile {self.folder}/san -out {name}.crt",
        ):
            subprocess.run(["openssl", *command.split()], check=True, capture_output=True)
        name.with_suffix(".pem").write_text(name.with_suffix(".key").read_text() + name.with_suffix(".crt").read_text())

    def _settings(self, data: Path) -> dict[str, object]:
        plain = super()._settings(data)
        secure, modules = f"SASL_SSL://{self.secure_bootstrap}", "org.apache.kafka.common.security"
        return plain | {
            "listeners": f"{plain['listeners']},{secure}",
            "advertised.listeners": f"{plain['advertised.listeners']},{secure}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.folder / "broker.pem",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required "
            f'user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }


@dataclass(frozen=True)
class Guard:
    """Users and permissions of a running broker."""

    broker: SecureKafka

    @cached_property
    def _admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})

    def user(self, name: str, password: str) -> None:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        upsertion = UserScramCredentialUpsertion(name, scram, password.encode())
        self._admin.alter_user_scram_credentials([upsertion])[name].result(30)

    def allow(self, name: str, topic: str, *operations: str) -> None:
        self._each(self._admin.create_acls, self._rules(name, topic, operations))

    def allow_groups(self, name: str, prefix: str) -> None:
        rule = AclBinding(
            ResourceType.GROUP, prefix, ResourcePatternType.PREFIXED, f"User:{name}", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        self._each(self._admin.create_acls, [rule])

    def _rules(self, name: str, topic: str, operations: tuple[str, ...]) -> list[Any]:
        return [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{name}", "*", AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]  # fmt: skip

    def _each(self, request: Any, rules: list[Any]) -> None:
        for answer in request(rules).values():
            answer.result(30)
