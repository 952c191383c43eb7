"""What Lakeward tells Airflow about itself: a provider package with the types of connections its streams name.

Airflow's connection form offers the types of installed providers alone. Lakeward needs neither the Kafka nor the Amazon
provider, so it brings the form of a type along, unless the provider that owns the type is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from typing import Any, ClassVar


class Kafka:
    """A Kafka cluster. Airflow asks for a class with these attributes; nothing is called."""

    conn_type: ClassVar[str] = "kafka"
    hook_name: ClassVar[str] = "Apache Kafka"
    conn_name_attr: ClassVar[str] = "kafka_conn_id"


class Postgres:
    """A PostgreSQL database: the registry, or a sink."""

    conn_type: ClassVar[str] = "postgres"
    hook_name: ClassVar[str] = "Postgres"
    conn_name_attr: ClassVar[str] = "postgres_conn_id"


class Aws:
    """An account of AWS or of a compatible service."""

    conn_type: ClassVar[str] = "aws"
    hook_name: ClassVar[str] = "Amazon Web Services"
    conn_name_attr: ClassVar[str] = "aws_conn_id"


class Http:
    """The receiver of messages about incidents."""

    conn_type: ClassVar[str] = "http"
    hook_name: ClassVar[str] = "HTTP"
    conn_name_attr: ClassVar[str] = "http_conn_id"


@dataclass(frozen=True)
class Form:
    """The form of a type of connections.

    Attributes:
        owner: the package of the provider that owns the type.
        hidden: standard fields that are not used.
        labels, placeholders: field -> its name, and an example.
    """

    hook: type[Kafka | Postgres | Aws | Http]
    owner: str
    hidden: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As `connection-types` of a provider."""
        return {
            "connection-type": self.hook.conn_type,
            "hook-class-name": f"{self.hook.__module__}.{self.hook.__name__}",
            "hook-name": self.hook.hook_name,
            "ui-field-behaviour": {
                "hidden-fields": list(self.hidden),
                "relabeling": dict(self.labels),
                "placeholders": dict(self.placeholders),
            },
        }


FORMS = (
    Form(
        Kafka, "airflow.providers.apache.kafka", ("schema",),
        {"host": "Bootstrap server", "login": "SASL user name", "password": "SASL password",
         "extra": "librdkafka properties"}, {"extra": '{"bootstrap.servers": "broker-1:9092,broker-2:9092"}'},
    ),
    Form(
        Postgres, "airflow.providers.postgres", (), {"schema": "Database"},
        {"port": "5432", "extra": '{"sslmode": "verify-full"}'},
    ),
    Form(
        Aws, "airflow.providers.amazon", ("host", "schema", "port"), {"login": "Access key", "password": "Secret key"},
        {"extra": '{"region_name": "eu-central-1"}'},
    ),
    Form(
        Http, "airflow.providers.http", ("login",), {"schema": "Scheme", "password": "Secret path or token"},
        {"host": "https://hooks.example.com"},
    ),
)  # fmt: skip


def get_provider_info() -> dict[str, Any]:
    """The entry point `apache_airflow_provider`."""
    return {
        "package-name": "lakeward",
        "name": "Lakeward",
        "description": "Streams, tables and checks of a streaming lakehouse, run from Airflow.",
        "versions": [metadata.version("lakeward")],
        "connection-types": [form.document() for form in FORMS if not _installed(form.owner)],
    }


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a package above it does not exist
        return False
